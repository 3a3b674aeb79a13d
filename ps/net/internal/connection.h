#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/emulation/link.h"
#include "ps/net/endpoint.h"
#include "ps/net/internal/buffer_pool.h"
#include "ps/net/internal/frame_reader.h"
#include "ps/net/internal/send_queue.h"
#include "ps/net/internal/stream.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

namespace ps::net {

class Connection;

/// Receiver of a connection's events. Called from the loop only, never from inside Send, Close or
/// Abort.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  /// Not after Close or Abort.
  virtual void OnFrame(Connection& connection, uint64_t request_id, proto::Message&& message) = 0;
  /// The connection was backlogged and is not any more. Not after Close or Abort.
  virtual void OnDrained(Connection& connection) = 0;
  /// Some bytes of some connection have left.
  virtual void OnRoom() = 0;
  /// Called once: no frame comes and none is taken any more. What was sent before may still be
  /// leaving.
  virtual void OnEnd(Connection& connection, const Status& why) = 0;
  /// Called once, as the last call: the socket is closed.
  virtual void OnGone(Connection& connection) = 0;
};

/// What the connections of one endpoint share.
struct ConnectionContext {
  ConnectionOwner* owner = nullptr;    // null once the endpoint is gone
  uint64_t queue_bytes_max = 0;        // unsent, per connection
  uint64_t queue_total_bytes_max = 0;  // and of all
  uint64_t queued_bytes = 0;           // of all, now
  Duration linger{};
  std::shared_ptr<BufferPool> pool;
  Traffic total;
  std::optional<emulation::Link> emulated_link;
  // While frames that arrived together are handed out, small answers wait here, to leave together.
  bool is_batching = false;
  std::vector<std::shared_ptr<Connection>> batch;
};

/// One connection: frames in, frames out, an orderly end. It asks Asio only when the socket is
/// ready, and moves the bytes itself. Asio's handlers hold it alive, which is why it is shared.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(
      proto::PeerId id,
      StreamSocket socket,
      TlsWish tls,
      const proto::FrameLimits& limits,
      std::shared_ptr<ConnectionContext> context);

  /// Begins to read.
  void Start();

  void set_limits(const proto::FrameLimits& limits) { reader_.set_limits(limits); }

  void Send(uint64_t request_id, const proto::Message& message);
  /// Sends what is queued, tells the peer that no more comes, and waits for its end, dropping what
  /// it still sends; at most `linger`.
  void Close(Status why);
  /// Sends a Refusal with `why`, then Close.
  void Refuse(uint64_t request_id, Status why, uint32_t retry_after_ms = 0);
  /// Ends at once.
  void Abort(Status why);
  /// Close(why) after `delay`. Replaces the one before.
  void CloseAfter(Duration delay, Status why);
  /// Takes CloseAfter back.
  void KeepOpen();

  proto::PeerId id() const { return id_; }

  /// Whether messages can still come and go.
  bool is_open() const { return phase_ == Phase::kOpen; }

  uint64_t queued_bytes() const { return queue_.bytes(); }

  /// Whether the kernel has no room for what is queued.
  bool is_backlogged() const { return is_open() && waits_writable_; }

  const Traffic& traffic() const { return traffic_; }

  /// By TLS, and the handshake is over.
  bool is_encrypted() const { return stream_.is_encrypted(); }

  /// Whether the peer's certificate gives it the role (ps/crypto/certificates.h).
  bool HasPeerRole(std::string_view role) const { return stream_.HasPeerRole(role); }

  /// Sends what Send left for the end of a batch.
  void FlushBatch();

 private:
  enum class Phase { kOpen, kClosing, kClosed };
  enum class Dispatch { kNeedsBytes, kYield, kStop };

  StreamSocket::executor_type executor() { return stream_.socket().get_executor(); }

  void WaitReadable();
  void WaitWritable();
  void OnWritable();
  /// With a limit on receiving: true, and Read is called later, when it is not this one's turn yet.
  bool ReadsLater();
  /// With a limit on sending: true, and Flush is called later, when it is not this one's turn yet.
  bool SendsLater();
  void Read();
  Dispatch DispatchFrames(size_t& frames_left);
  void Discard();
  void EndOfStream(Status why);
  void Flush();
  void LeaveOpen(Phase next, Status why);
  void DropUnlessReading();
  void StopCloseTimer();
  void CountQueued();

  const proto::PeerId id_;
  const std::shared_ptr<ConnectionContext> context_;
  Stream stream_;
  asio::steady_timer close_timer_;
  uint64_t close_timer_number_ = 0;  // a timer that fired before it was replaced is ignored
  FrameReader reader_;
  SendQueue queue_;
  uint64_t counted_bytes_ = 0;  // of queue_, in the context's sum
  Phase phase_ = Phase::kOpen;
  Status send_failure_;          // the peer takes no more; what it said before is still read
  bool waits_writable_ = false;  // or for its turn to send
  asio::steady_timer turn_to_send_;
  uint64_t booked_bytes_ = 0;  // bytes for which its turn has come
  asio::steady_timer turn_to_read_;
  TimePoint read_from_{};
  bool is_in_batch_ = false;
  Traffic traffic_;
};

}  // namespace ps::net
