#pragma once

#include <asio/basic_socket_acceptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ps/base/random.h"
#include "ps/net/endpoint.h"
#include "ps/net/internal/connection.h"
#include "ps/net/internal/connector.h"
#include "ps/net/internal/half_open.h"
#include "ps/net/internal/line_budget.h"
#include "ps/net/internal/loop_impl.h"
#include "ps/net/internal/socket.h"
#include "ps/net/internal/socket_file.h"

namespace ps::net {

/// Owns the connections and knows how far each handshake is:
///   accepted:  kAwaitsHello -> kOpen | kEnded
///   connected: kAwaitsReply -> kOpen | kEnded
/// Only kOpen peers are known to the handler. A peer stays in the table until its socket is closed,
/// so that sockets on their way out count against the limits too.
class Endpoint::Impl final : public ConnectionOwner, public std::enable_shared_from_this<Impl> {
 public:
  Impl(Loop* loop, EndpointOptions options, const Logger* logger, EndpointHandler* handler);

  Result<uint32_t> Listen(const std::string& host, uint32_t port);
  Status ListenAtFile(const std::string& path);
  void StopListening();
  ConnectId Connect(
      Connector::Target target, proto::Hello hello, ConnectCallback done, const RetryPolicy& retry);
  void CancelConnect(ConnectId connect);
  void CloseAll(std::function<void()> done);
  void Destroy();

  /// Null when the handler does not know the peer, or not any more.
  Connection* Find(proto::PeerId peer) const;
  std::string NodeOf(proto::PeerId peer) const;
  proto::Term TermOf(proto::PeerId peer) const;

  Traffic total() const { return context_->total; }

  void SetQueueBytesMax(uint64_t bytes);
  bool IsBacklogged(proto::PeerId peer);
  /// Drops the peers with most unsent bytes while all together have too many.
  void BoundTotal();

  uint64_t queued_bytes() const { return context_->queued_bytes; }

  uint32_t connection_count() const;

  uint64_t turned_away() const { return turned_away_; }

  void OnFrame(Connection& connection, uint64_t request_id, proto::Message&& message) override;
  void OnDrained(Connection& connection) override;
  void OnRoom() override;
  void OnEnd(Connection& connection, const Status& why) override;
  void OnGone(Connection& connection) override;

 private:
  enum class State { kAwaitsHello, kAwaitsReply, kOpen, kEnded };

  using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

  /// Where connections come in.
  struct Listener {
    Listener(Acceptor a, std::unique_ptr<SocketFile> f)
        : acceptor(std::move(a)), pause(acceptor.get_executor()), file(std::move(f)) {}

    Acceptor acceptor;
    asio::steady_timer pause;          // after a failure to accept
    std::unique_ptr<SocketFile> file;  // null: a port
  };

  /// How many came in by ports, or by socket files. Each has the limits of the options to itself,
  /// so that strangers at a port can't keep out this machine's user.
  struct Door {
    explicit Door(const EndpointOptions& options)
        : half_open(options.half_open_max, options.half_open_patience) {}

    uint32_t accepted = 0;  // not gone yet
    HalfOpen half_open;     // of these, never were kOpen
  };

  struct Peer {
    std::shared_ptr<Connection> connection;
    State state = State::kEnded;
    Door* door = nullptr;  // null: connected from here
    bool is_half_open = false;
    bool is_to_encrypt = false;  // connected from here, by TLS
    std::string address;
    std::string host;  // the address without its port
    std::string node;
    proto::Term term = 0;
    ConnectId attempt;  // kAwaitsReply: its entry in attempts_
  };

  /// One call of Connect.
  struct Attempt {
    std::shared_ptr<Connector> connector;
    proto::Hello hello;
    ConnectCallback done;
  };

  void Accept(const std::shared_ptr<Listener>& listener);
  void OnAccepted(Door* door, StreamSocket socket);
  void OnAcceptFailed(const std::shared_ptr<Listener>& listener, const asio::error_code& error);
  void RefuseSocket(StreamSocket socket, const std::string& why);
  Peer& AddPeer(StreamSocket socket, TlsWish tls, State state);
  bool MakeRoom(Door* door, const std::string& host);
  Status CheckStranger(const Peer& peer, const proto::Hello& hello) const;
  void Open(Peer& peer, const std::string& node);
  void CheckHello(Peer& peer, uint64_t request_id, const proto::Message& message);
  void CheckReply(Peer& peer, uint64_t request_id, const proto::Message& message);
  void OnConnectSocket(ConnectId attempt, StreamSocket socket);
  void FinishAttempt(ConnectId attempt, Result<proto::PeerId> result);

  /// Whether the peer of a connection from here has shown who it is, if it has to.
  static bool IsTrusted(const Peer& peer) {
    return !peer.is_to_encrypt || peer.connection->is_encrypted();
  }

  /// Why an attempt to connect has failed, for its policy. Anybody may hold the port, and say
  /// anything, until the peer has shown the certificate of the run; so a failure before that ends
  /// no attempts, whatever its code is.
  static Status AttemptFailure(const Peer& peer, Status why);
  void LogEnd(const Peer& peer, State state, const Status& why);

  // Constant after construction.
  Loop* const loop_;
  const EndpointOptions options_;
  const Logger* const logger_;
  EndpointHandler* const handler_;
  const std::shared_ptr<ConnectionContext> context_;

  // Owned by the loop's thread.
  Random random_;
  std::vector<std::shared_ptr<Listener>> listeners_;
  std::map<proto::PeerId, Peer> peers_;
  std::set<proto::PeerId> waiting_for_room_;  // told that they are backlogged since others are
  std::map<ConnectId, Attempt> attempts_;
  uint64_t last_peer_ = 0;
  uint64_t last_attempt_ = 0;
  uint64_t turned_away_ = 0;
  Door ports_;
  Door files_;
  LineBudget refusal_lines_;  // of those who never were kOpen
  bool is_closing_ = false;
  std::function<void()> closed_;  // CloseAll's
};

}  // namespace ps::net
