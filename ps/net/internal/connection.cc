#include "ps/net/internal/connection.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <utility>

#include "ps/net/internal/socket.h"

namespace ps::net {
namespace {

// A connection yields to the others of its loop after this much.
constexpr size_t kFramesPerTurn = 64;
constexpr size_t kBytesPerTurn = size_t{4} << 20;
// Frames up to this size wait for the end of a batch.
constexpr uint64_t kSmallFrameBytes = 4096;
constexpr size_t kGatherParts = 256;

/// Shortens `parts` to `bytes_max` in all. Returns how many are left.
size_t Shorten(std::span<iovec> parts, size_t bytes_max) {
  size_t count = 0;
  while (count < parts.size() && bytes_max > 0) {
    iovec& part = parts[count++];
    part.iov_len = std::min(part.iov_len, bytes_max);
    bytes_max -= part.iov_len;
  }
  return count;
}

}  // namespace

Connection::Connection(
    proto::PeerId id,
    StreamSocket socket,
    TlsWish tls,
    const proto::FrameLimits& limits,
    std::shared_ptr<ConnectionContext> context)
    : id_(id),
      context_(std::move(context)),
      stream_(std::move(socket), std::move(tls)),
      close_timer_(executor()),
      reader_(limits, context_->pool),
      turn_to_send_(executor()),
      turn_to_read_(executor()) {}

void Connection::Start() {
  WaitReadable();
}

void Connection::WaitReadable() {
  stream_.socket().async_wait(
      StreamSocket::wait_read, [self = shared_from_this()](const asio::error_code& error) {
        if (!error) {
          self->Read();
        }
      });
}

void Connection::WaitWritable() {
  if (waits_writable_) {
    return;
  }
  waits_writable_ = true;
  stream_.socket().async_wait(
      StreamSocket::wait_write, [self = shared_from_this()](const asio::error_code& error) {
        self->waits_writable_ = false;
        if (!error) {
          self->OnWritable();
        }
      });
}

void Connection::CountQueued() {
  context_->queued_bytes += queue_.bytes() - counted_bytes_;
  counted_bytes_ = queue_.bytes();
}

void Connection::OnWritable() {
  Flush();
  const bool is_drained = phase_ == Phase::kOpen && queue_.empty();
  if (is_drained && send_failure_.ok() && context_->owner != nullptr) {
    context_->owner->OnDrained(*this);
  }
  if (context_->owner != nullptr) {
    context_->owner->OnRoom();
  }
}

bool Connection::SendsLater() {
  if (!context_->emulated_link || booked_bytes_ > 0) {
    return false;
  }
  const TimePoint now = SystemTime().Now();
  booked_bytes_ = std::min(queue_.bytes(), emulation::LinkRate::kTurnBytes);
  const TimePoint turn = context_->emulated_link->send.Book(booked_bytes_, now);
  if (turn <= now) {
    return false;
  }
  waits_writable_ = true;
  turn_to_send_.expires_after(turn - now);
  turn_to_send_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    self->waits_writable_ = false;
    if (!error) {
      self->OnWritable();
    }
  });
  return true;
}

bool Connection::ReadsLater() {
  if (!context_->emulated_link) {
    return false;
  }
  const TimePoint now = SystemTime().Now();
  if (read_from_ <= now) {
    return false;
  }
  turn_to_read_.expires_after(read_from_ - now);
  turn_to_read_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error) {
      self->Read();
    }
  });
  return true;
}

void Connection::Read() {
  size_t frames_left = kFramesPerTurn;
  size_t bytes_read = 0;
  bool is_drained = false;
  while (phase_ == Phase::kOpen) {
    const Dispatch dispatch = DispatchFrames(frames_left);
    if (dispatch == Dispatch::kStop) {
      break;
    }
    if (dispatch == Dispatch::kNeedsBytes && is_drained) {
      WaitReadable();
      return;
    }
    if (dispatch == Dispatch::kYield || bytes_read >= kBytesPerTurn) {
      asio::post(executor(), [self = shared_from_this()] { self->Read(); });
      return;
    }
    if (ReadsLater()) {
      return;
    }
    std::array<iovec, 2> targets{};
    size_t count = reader_.Targets(targets);
    if (context_->emulated_link) {
      count = Shorten(std::span(targets).first(count), emulation::LinkRate::kTurnBytes);
    }
    const bool could_send = stream_.can_send();
    const IoResult result = stream_.Receive(std::span(targets).first(count));
    if (!result.status.ok() && stream_.is_refusing()) {
      Close(result.status);
      break;
    }
    if (!result.status.ok() || result.is_end) {
      EndOfStream(result.status);
      return;
    }
    if ((stream_.has_unsent() || could_send != stream_.can_send()) && !waits_writable_) {
      Flush();  // of the handshake, and what waited for its end
    }
    if (result.bytes > 0) {
      reader_.Filled(result.bytes);
      if (context_->emulated_link) {
        read_from_ = context_->emulated_link->receive.Book(result.bytes, SystemTime().Now());
      }
    }
    bytes_read += result.bytes;
    traffic_.bytes_in += result.bytes;
    context_->total.bytes_in += result.bytes;
    // After a short read the socket is empty; asking it again would be a wasted call.
    is_drained = result.is_drained;
  }
  if (phase_ == Phase::kClosing) {
    Discard();
  }
}

Connection::Dispatch Connection::DispatchFrames(size_t& frames_left) {
  const std::shared_ptr<Connection> self = shared_from_this();
  context_->is_batching = true;
  Dispatch outcome = Dispatch::kStop;
  while (phase_ == Phase::kOpen) {
    if (frames_left == 0) {
      outcome = Dispatch::kYield;
      break;
    }
    Result<std::optional<FrameReader::Frame>> frame = reader_.Next();
    if (!frame.ok()) {
      Refuse(reader_.request_id(), std::move(frame).status());
      break;
    }
    if (!frame.value().has_value()) {
      outcome = Dispatch::kNeedsBytes;
      break;
    }
    --frames_left;
    ++traffic_.frames_in;
    ++context_->total.frames_in;
    if (context_->owner == nullptr) {
      break;
    }
    context_->owner->OnFrame(*this, frame.value()->request_id, std::move(frame.value()->message));
  }
  context_->is_batching = false;
  for (const auto& connection : std::exchange(context_->batch, {})) {
    connection->FlushBatch();
  }
  if (context_->owner != nullptr) {
    context_->owner->OnRoom();
  }
  return phase_ == Phase::kOpen ? outcome : Dispatch::kStop;
}

void Connection::Discard() {
  std::array<std::byte, 16384> scratch;
  size_t bytes_read = 0;
  while (phase_ == Phase::kClosing && bytes_read < kBytesPerTurn) {
    std::array<iovec, 1> target = {{{scratch.data(), scratch.size()}}};
    const IoResult result = ReceiveSome(stream_.socket().native_handle(), target);
    if (result.would_block) {
      WaitReadable();
      return;
    }
    if (!result.status.ok() || result.is_end) {
      Abort(Status::Cancelled("closed here"));
      return;
    }
    bytes_read += result.bytes;
  }
  if (phase_ == Phase::kClosing) {
    asio::post(executor(), [self = shared_from_this()] { self->Read(); });
  }
}

void Connection::EndOfStream(Status why) {
  if (!send_failure_.ok()) {
    why = send_failure_;
  } else if (why.ok()) {
    why = Status::Unavailable(
        reader_.is_between_frames() ? "the peer closed the connection"
                                    : "the peer closed the connection within a frame");
  }
  Abort(std::move(why));
}

void Connection::Send(uint64_t request_id, const proto::Message& message) {
  if (phase_ != Phase::kOpen || !send_failure_.ok()) {
    return;
  }
  proto::EncodedMessage frame = proto::EncodeUnsealed(message, request_id);
  const bool is_small = frame.size() <= kSmallFrameBytes;
  queue_.Push(std::move(frame));
  CountQueued();
  const bool may_wait = is_small && queue_.bytes() <= context_->queue_bytes_max;
  if (may_wait && context_->is_batching && !waits_writable_) {
    if (!is_in_batch_) {
      is_in_batch_ = true;
      context_->batch.push_back(shared_from_this());
    }
  } else if (!waits_writable_) {
    Flush();
  }
  if (!queue_.empty()) {
    queue_.KeepBorrowed(*context_->pool);
    DropUnlessReading();
  }
}

void Connection::FlushBatch() {
  is_in_batch_ = false;
  if (!waits_writable_) {
    Flush();
  }
}

void Connection::Flush() {
  if (phase_ == Phase::kClosed || !send_failure_.ok()) {
    return;
  }
  std::array<iovec, kGatherParts> parts;
  while (!queue_.empty() || stream_.has_unsent()) {
    if (!queue_.empty() && SendsLater()) {
      return;
    }
    size_t count = queue_.Gather(parts);
    if (booked_bytes_ > 0) {
      count = Shorten(std::span(parts).first(count), booked_bytes_);
    }
    size_t wanted = 0;
    for (size_t i = 0; i < count; ++i) {
      wanted += parts[i].iov_len;
    }
    IoResult result = stream_.Send(std::span(parts).first(count));
    if (!result.status.ok()) {
      // The peer may have said why before it went: reading goes on and ends the connection.
      send_failure_ = std::move(result.status);
      queue_.Clear();
      CountQueued();
      return;
    }
    booked_bytes_ -= std::min<uint64_t>(booked_bytes_, result.bytes);
    const size_t completed = queue_.Sent(result.bytes);
    CountQueued();
    traffic_.bytes_out += result.bytes;
    context_->total.bytes_out += result.bytes;
    traffic_.frames_out += completed;
    context_->total.frames_out += completed;
    if (!stream_.can_send() && !result.would_block) {
      break;  // until the peer's part of the handshake has come
    }
    if (result.would_block || result.bytes < wanted) {
      WaitWritable();
      return;
    }
  }
  if (phase_ == Phase::kClosing && !stream_.ShutdownSend()) {
    WaitWritable();
  }
}

void Connection::DropUnlessReading() {
  if (queue_.bytes() > context_->queue_bytes_max) {
    Abort(Status::Overloaded(fmt::format(
        "the peer does not read: {} bytes wait, the limit is {}",
        queue_.bytes(),
        context_->queue_bytes_max)));
  }
}

void Connection::Refuse(uint64_t request_id, Status why, uint32_t retry_after_ms) {
  Send(
      request_id,
      proto::Refusal{
          .code = why.code(),
          .message = std::string(why.message()),
          .retry_after_ms = retry_after_ms});
  Close(std::move(why));
}

void Connection::LeaveOpen(Phase next, Status why) {
  phase_ = next;
  asio::post(executor(), [self = shared_from_this(), why = std::move(why)] {
    if (self->context_->owner != nullptr) {
      self->context_->owner->OnEnd(*self, why);
    }
  });
}

void Connection::Close(Status why) {
  if (phase_ != Phase::kOpen) {
    return;
  }
  CloseAfter(context_->linger, Status::Cancelled("lingered long enough"));
  LeaveOpen(Phase::kClosing, std::move(why));
  if (!is_in_batch_ && !waits_writable_) {
    Flush();
  }
}

void Connection::Abort(Status why) {
  if (phase_ == Phase::kClosed) {
    return;
  }
  if (phase_ == Phase::kOpen) {
    LeaveOpen(Phase::kClosed, std::move(why));
  }
  phase_ = Phase::kClosed;
  StopCloseTimer();
  turn_to_send_.cancel();
  turn_to_read_.cancel();
  queue_.Clear();
  CountQueued();
  asio::error_code ignored;
  stream_.socket().close(ignored);
  asio::post(executor(), [self = shared_from_this()] {
    if (self->context_->owner != nullptr) {
      self->context_->owner->OnGone(*self);
    }
  });
}

void Connection::CloseAfter(Duration delay, Status why) {
  if (phase_ != Phase::kOpen) {
    return;
  }
  const uint64_t number = ++close_timer_number_;
  close_timer_.expires_after(delay);
  close_timer_.async_wait(
      [self = shared_from_this(), number, why = std::move(why)](const asio::error_code& error) {
        if (error || number != self->close_timer_number_) {
          return;
        }
        if (self->phase_ == Phase::kOpen) {
          self->Close(why);
        } else {
          self->Abort(why);
        }
      });
}

void Connection::KeepOpen() {
  if (phase_ == Phase::kOpen) {
    StopCloseTimer();
  }
}

void Connection::StopCloseTimer() {
  ++close_timer_number_;
  close_timer_.cancel();
}

}  // namespace ps::net
