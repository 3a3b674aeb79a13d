#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/emulation/link.h"
#include "ps/net/loop.h"
#include "ps/proto/frame.h"
#include "ps/proto/limits.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/proto/timing.h"

namespace ps::crypto {
class TlsContext;
}

namespace ps::net {

/// How long, and how often, to try to reach a peer. Between attempts the wait doubles from `first`
/// to at most `limit`, each time +-25 % so that peers do not come back all at once. A peer that
/// refuses may ask for a longer wait, but for no longer one than `limit`.
///
/// One attempt takes at most resolve_timeout + kAddressesMax * connect_timeout + reply_timeout.
struct RetryPolicy {
  /// Most addresses of a name that an attempt tries, one after the other.
  static constexpr size_t kAddressesMax = 8;

  uint32_t attempts_max = 1;
  Duration first = std::chrono::milliseconds(250);
  Duration limit = std::chrono::milliseconds(1500);
  Duration resolve_timeout = std::chrono::seconds(10);        // for the addresses of a name
  Duration connect_timeout = std::chrono::milliseconds(500);  // for each address
  Duration reply_timeout = std::chrono::seconds(3);           // from then to the HelloReply
  /// What the peer has to be by its certificate, where connections are encrypted.
  std::vector<std::string> peer_roles = {"coordinator", "server"};
  /// Gets the last reason when nobody is connected after `report_after`, and again after each
  /// further `report_every`. The attempts go on.
  std::function<void(const Status& why)> on_trouble;
  Duration report_after = std::chrono::seconds(2);
  Duration report_every = std::chrono::seconds(30);

  static RetryPolicy FromTiming(const proto::Timing& timing, uint32_t attempts) {
    RetryPolicy policy;
    policy.attempts_max = attempts;
    policy.first = timing.retry_first;
    policy.limit = timing.retry_limit;
    policy.connect_timeout = timing.connect_timeout;
    policy.reply_timeout = timing.detect;
    return policy;
  }
};

struct EndpointOptions {
  std::string node;  // own name, for HelloReply and logs
  /// That a peer must show to connect; or, if it is a worker, one that was made of it
  /// (ps/crypto/worker_token.h).
  std::string token;
  /// Connections to and from ports are encrypted, and both sides show certificates. Null: they are
  /// not.
  std::shared_ptr<const crypto::TlsContext> tls;
  /// Asked of each peer at a port that showed a token. Not OK: it is refused for this. Called from
  /// the loop; may not call the endpoint.
  std::function<Status(const proto::Hello& hello)> admit;
  proto::Term term = 0;            // own, of a coordinator, for HelloReply
  std::vector<proto::Role> roles;  // of peers that may connect
  /// Roles of peers that may connect to a socket file. They need no token, because the file's mode
  /// keeps other users away.
  std::vector<proto::Role> file_roles;
  proto::FrameLimits limits;
  uint64_t queue_bytes_max =
      proto::kQueueBytesDefault;  // unsent, per connection; more and the peer is dropped
  /// Unsent, all connections together; at least four times queue_bytes_max. Over half of it
  /// all count as backlogged; over all of it the connection with most unsent bytes is dropped.
  uint64_t queue_total_bytes_max = 256U << 20;
  uint64_t pool_bytes_max = 64U << 20;  // receive memory kept for reuse, all connections together
  uint32_t connections_max =
      proto::kConnectionsMax;  // accepted at ports; as many again at socket files
  /// Accepted connections whose handshake is not over, likewise. At the limit a newcomer takes the
  /// place of another one (internal/half_open.h).
  uint32_t half_open_max = 64;
  /// A newcomer may displace a handshake of its own address, or of one with as few of them, when
  /// that one is older than this.
  Duration half_open_patience = std::chrono::milliseconds(500);
  /// Addresses (no names, no ports) of peers that are expected to come back: known from the start.
  std::vector<std::string> known_addresses;
  /// SO_SNDBUF and SO_RCVBUF; 0 = the kernel's choice, which grows with what is sent.
  uint32_t socket_buffer_bytes = 0;
  std::optional<emulation::Link> emulated_link;  // of all connections together
  Duration handshake_timeout = std::chrono::seconds(3);
  Duration linger = std::chrono::seconds(3);  // for the peer to take what was sent before a close
  uint64_t seed = 1;                          // of the retries' jitter
};

/// A call of Endpoint::Connect. Never reused within an endpoint; 0 is none.
using ConnectId = Id<struct ConnectIdTag, uint64_t>;

/// Since the endpoint or the connection began; headers included.
struct Traffic {
  uint64_t bytes_in = 0;
  uint64_t frames_in = 0;
  uint64_t bytes_out = 0;
  uint64_t frames_out = 0;
};

/// Events of an endpoint, for its shell. Every call comes from the loop, never from inside one of
/// its own calls into the endpoint. May call anything on the endpoint but its destructor.
class EndpointHandler {
 public:
  virtual ~EndpointHandler() = default;
  /// A peer connected and showed the token, or connected to the file.
  virtual void OnConnected(proto::PeerId peer, const proto::Hello& hello) = 0;
  virtual void OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) = 0;
  /// Once for every peer that OnConnected or a Connect callback named; nothing of it comes later,
  /// and what is sent to it later is dropped. kCancelled: Close was called here. kDeadlineExceeded:
  /// CloseAfter. kOverloaded: it did not read. kCorruption, kInvalidArgument, kUnsupported: it sent
  /// a bad frame. Else it went away.
  virtual void OnClosed(proto::PeerId peer, const Status& why) = 0;

  /// The peer was backlogged, and takes more.
  virtual void OnDrained(proto::PeerId /*peer*/) {}
};

/// All connections of one core: accepts, connects, shakes hands, and carries messages both ways.
/// Thread: the loop's (before Run: any one). Destroyed on it too, or after Run has returned, with
/// connections cut; call CloseAll before, so that peers get what was sent to them.
class Endpoint final : public proto::Outbox {
 public:
  using ConnectCallback = std::function<void(Result<proto::PeerId>)>;

  /// All pointers outlive the endpoint.
  Endpoint(Loop* loop, EndpointOptions options, const Logger* logger, EndpointHandler* handler);
  ~Endpoint() override;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Accepts connections at an address of this machine; port 0 takes any free one. Returns the
  /// port. Errors: kUnavailable (port in use), kInvalidArgument, kNotFound (host), with what to do.
  Result<uint32_t> Listen(const std::string& host, uint32_t port);
  /// Accepts connections at a socket file that this makes, with mode 0600, and StopListening
  /// removes. The path may have any length. After a kill the file stays without a listener. Errors:
  /// kUnavailable (there is such a file), kInvalidArgument; both with the path.
  Status ListenAtFile(const std::string& path);
  void StopListening();

  /// Connects and says `hello`. `done` gets the peer once it has accepted; or, after the attempts
  /// that `retry` allows, the last reason, prefixed with host:port. A refusal is not tried again
  /// unless its code says so, or anybody may have sent it: where connections are encrypted, an
  /// answer counts only from a peer that has shown the certificate. `done` is not called from
  /// inside Connect, and not at all after ~Endpoint or CancelConnect.
  ConnectId Connect(
      const std::string& host,
      uint32_t port,
      proto::Hello hello,
      ConnectCallback done,
      const RetryPolicy& retry = {});

  /// Connect to a socket file, which must be there and this user's. The path takes the place of
  /// host:port.
  ConnectId ConnectToFile(
      const std::string& path,
      proto::Hello hello,
      ConnectCallback done,
      const RetryPolicy& retry = {});

  /// Gives the attempt up: nobody is connected by it any more. No effect when `done` was called.
  void CancelConnect(ConnectId connect);

  /// Writes as much as the kernel takes at once, borrowed payload included, and keeps the rest:
  /// owned parts as they are, borrowed ones copied. Over queue_bytes_max of unsent bytes the peer
  /// is dropped.
  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override;
  /// The kernel's buffer of that connection is full, or much is unsent on all of them;
  /// EndpointHandler::OnDrained follows.
  bool IsBacklogged(proto::PeerId peer) const override;
  void Flush(proto::PeerId peer) override;
  /// What was sent before still leaves; what the peer sends from now on is dropped. OnClosed
  /// follows.
  void Close(proto::PeerId peer) override;

  /// Closes the peer after `delay`; calling it again sets the time anew.
  void CloseAfter(proto::PeerId peer, Duration delay);
  /// Takes a CloseAfter back.
  void KeepOpen(proto::PeerId peer);
  /// Stops listening and connecting, closes all peers, and calls `done` when they are gone, at the
  /// latest after `EndpointOptions::linger`. The endpoint takes no new peers afterwards.
  void CloseAll(std::function<void()> done);

  /// What the peer calls itself; empty when it is gone.
  std::string NodeOf(proto::PeerId peer) const;
  /// What it says that its term is; 0 when it is no coordinator, or gone.
  proto::Term TermOf(proto::PeerId peer) const;
  /// EndpointOptions::queue_bytes_max from now on, when how much one answer holds is known only
  /// later.
  void SetQueueBytesMax(uint64_t bytes);
  /// Bytes that were sent to anybody and did not leave yet.
  uint64_t TotalQueuedBytes() const;
  /// Bytes that were sent to the peer and did not leave yet.
  uint64_t QueuedBytes(proto::PeerId peer) const;
  Traffic TrafficOf(proto::PeerId peer) const;
  /// Bytes of all connections since the start.
  Traffic TotalTraffic() const;
  uint32_t connection_count() const;
  /// Newcomers that found no room, and handshakes that had to make some, since the start. While it
  /// grows, others may be keeping out a peer that is missing.
  uint64_t turned_away() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // handlers on their way look whether it is still there
};

}  // namespace ps::net
