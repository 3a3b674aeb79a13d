#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "ps/net/internal/buffer_pool.h"
#include "ps/proto/messages.h"

namespace ps::net {

/// Encoded frames on their way to a socket, as a list of byte ranges; knows no socket.
class SendQueue {
 public:
  /// The payload may still be borrowed; then KeepBorrowed must follow before its owner goes on.
  void Push(proto::EncodedMessage frame);

  /// Fills `parts` from the first unsent byte on, over as many frames as fit; returns how many are
  /// set. Seals frames as it comes to them, and stops at the next one after kSealBytes: a queue of
  /// many megabytes is not read through before its first byte leaves.
  size_t Gather(std::span<iovec> parts);
  /// The first `bytes` of what Gather gave are sent. Returns how many frames that completed.
  size_t Sent(size_t bytes);

  /// Copies what is unsent of the newest frame if it is borrowed. Frames before it were kept
  /// already.
  void KeepBorrowed(BufferPool& pool);

  void Clear();

  bool empty() const { return frames_.empty(); }

  uint64_t bytes() const { return bytes_; }

  static constexpr uint64_t kSealBytes = uint64_t{1} << 20;

 private:
  /// Part 0 of a frame is its head, part i its payload part i - 1.
  static std::span<const std::byte> PartOf(const proto::EncodedMessage& frame, size_t part);

  static size_t PartCount(const proto::EncodedMessage& frame) {
    return 1 + frame.payload.parts.size();
  }

  std::deque<proto::EncodedMessage> frames_;
  uint64_t bytes_ = 0;  // unsent
  // Where the first unsent byte is, within the front frame.
  size_t part_ = 0;
  size_t part_offset_ = 0;
};

}  // namespace ps::net
