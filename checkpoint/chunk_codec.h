#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/chunk_record.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

/// Compresses and restores the buffers of chunks, by zstd. Floats compress badly as they are: the
/// sign and exponent of neighbours are alike, their mantissas are not. So the bytes of equal place
/// are put together first, and those of a delta are mostly zero. Memory: some times the largest
/// buffer. Thread: any one at a time.
class ChunkCodec {
 public:
  ChunkCodec();
  ~ChunkCodec();
  ChunkCodec(const ChunkCodec&) = delete;
  ChunkCodec& operator=(const ChunkCodec&) = delete;

  struct Encoded {
    Encoding encoding = Encoding::kRaw;
    std::span<const std::byte> bytes;
  };

  /// Whatever is smallest of `plainest`, which the result may refer to, and what zstd makes of
  /// `buffer`. `previous` has the buffer's size, or is empty: no delta then. Requires: a whole
  /// number of floats.
  Encoded Encode(
      const Encoded& plainest,
      std::span<const std::byte> buffer,
      std::span<const std::byte> previous,
      std::vector<std::byte>* room);

  /// As kBf16. Requires: floats whose lower halves are zero.
  static Encoded Pack(std::span<const std::byte> buffer, std::vector<std::byte>* room);

  /// Restores a buffer from any bytes; with kDelta `target` holds the previous one. Errors:
  /// kCorruption.
  Status Decode(Encoding encoding, std::span<const std::byte> stored, std::span<std::byte> target);

 private:
  struct Contexts;

  /// Into `room`; false when the result is not smaller than `bytes_max`.
  bool Compress(size_t bytes_max, std::vector<std::byte>* room);

  std::unique_ptr<Contexts> contexts_;
  std::vector<std::byte> shuffled_;
};

}  // namespace ps::checkpoint
