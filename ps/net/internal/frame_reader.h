#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/base/status.h"
#include "ps/net/internal/buffer_pool.h"
#include "ps/proto/frame.h"
#include "ps/proto/messages.h"

namespace ps::net {

/// Turns a stream of bytes into messages; knows no socket. Small frames arrive many at once through
/// a buffer of 64 KiB, a large payload straight in the memory that its message will own. Use: take
/// frames with Next until there is none, fill Targets, tell Filled, again.
class FrameReader {
 public:
  struct Frame {
    uint64_t request_id = 0;
    proto::Message message;
  };

  FrameReader(const proto::FrameLimits& limits, std::shared_ptr<BufferPool> pool);

  /// Applies from the next frame header on.
  void set_limits(const proto::FrameLimits& limits) { limits_ = limits; }

  /// The next whole frame; nothing if more bytes are needed. An error (proto::DecodeFrameHeader's
  /// and DecodeMessage's) is final: where the next frame would begin is unknown.
  Result<std::optional<Frame>> Next();

  /// Where the next bytes of the stream belong, in order. Requires: Next has just returned nothing.
  /// Returns how many of `targets` are set; their total size is not 0.
  size_t Targets(std::array<iovec, 2>& targets);
  /// `bytes` > 0 were written to the targets.
  void Filled(size_t bytes);

  /// Whether the stream ends between two frames here.
  bool is_between_frames() const { return stage_ == Stage::kHeader && begin_ == end_; }

  /// The request id of the frame in hand; 0 while its header is not accepted. For refusals.
  uint64_t request_id() const { return stage_ == Stage::kHeader ? 0 : header_.request_id; }

 private:
  enum class Stage { kHeader, kFlatBuffer, kPayload };

  Status ReadHeader();
  std::span<std::byte> Rest();
  void StartPayload();
  /// Takes what has come of the payload since the last call into the CRC, while it is in the cache.
  void CheckPayload();

  std::shared_ptr<BufferPool> pool_;
  proto::FrameLimits limits_;

  Buffer in_;  // bytes [begin_, end_) are read and not yet used
  size_t begin_ = 0;
  size_t end_ = 0;

  Stage stage_ = Stage::kHeader;
  proto::FrameHeader header_;          // valid from kFlatBuffer on
  std::vector<std::byte> flatbuffer_;  // with the padding behind it
  std::shared_ptr<Buffer> payload_;    // in kPayload
  size_t filled_ = 0;                  // bytes of the stage's target that are there
  size_t checked_ = 0;                 // bytes of the payload that are in crc_
  uint32_t crc_ = 0;                   // of the body so far
};

}  // namespace ps::net
