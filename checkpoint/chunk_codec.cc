#include "checkpoint/chunk_codec.h"

#include <zstd.h>

#include <cstdint>
#include <cstring>

#include "ps/base/check.h"

namespace ps::checkpoint {
namespace {

constexpr int kLevel = 1;
constexpr size_t kPlanes = sizeof(uint32_t);
constexpr uint32_t kBf16Unit = 1U << 16U;  // of a float with the precision of bf16

uint32_t LoadWord(const std::byte* at) {
  uint32_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

/// Byte p of word i goes to place p * words + i. `previous` may be null.
void Shuffle(const std::byte* words, const std::byte* previous, size_t count, std::byte* planes) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t word = LoadWord(words + i * kPlanes);
    if (previous != nullptr) {
      word ^= LoadWord(previous + i * kPlanes);
    }
    for (size_t p = 0; p < kPlanes; ++p) {
      planes[p * count + i] = static_cast<std::byte>(word >> (8 * p));
    }
  }
}

/// The opposite; with `is_delta` onto what the words are.
void Unshuffle(const std::byte* planes, size_t count, bool is_delta, std::byte* words) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t word = is_delta ? LoadWord(words + i * kPlanes) : 0;
    for (size_t p = 0; p < kPlanes; ++p) {
      word ^= static_cast<uint32_t>(planes[p * count + i]) << (8 * p);
    }
    std::memcpy(words + i * kPlanes, &word, sizeof word);
  }
}

/// The opposite of Pack.
Status Unpack(std::span<const std::byte> stored, std::span<std::byte> target) {
  const size_t count = target.size() / kPlanes;
  if (stored.size() != count * sizeof(uint16_t)) {
    return Status::Corruption("its record is longer or shorter than it says");
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t upper = 0;
    std::memcpy(&upper, stored.data() + i * sizeof upper, sizeof upper);
    const uint32_t word = upper * kBf16Unit;
    std::memcpy(target.data() + i * kPlanes, &word, sizeof word);
  }
  return Status::Ok();
}

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }

  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

/// Each is made when it is needed first: one that only reads, or only raw bytes, has none.
struct ChunkCodec::Contexts {
  std::unique_ptr<ZSTD_CCtx, FreeContext> compress;
  std::unique_ptr<ZSTD_DCtx, FreeContext> decompress;
};

ChunkCodec::ChunkCodec() : contexts_(std::make_unique<Contexts>()) {}

ChunkCodec::~ChunkCodec() = default;

bool ChunkCodec::Compress(size_t bytes_max, std::vector<std::byte>* room) {
  room->resize(bytes_max);
  if (contexts_->compress == nullptr) {
    contexts_->compress.reset(ZSTD_createCCtx());
  }
  const size_t size = ZSTD_compressCCtx(
      contexts_->compress.get(),
      room->data(),
      room->size(),
      shuffled_.data(),
      shuffled_.size(),
      kLevel);
  if (ZSTD_isError(size) != 0 || size >= bytes_max) {
    return false;  // it does not fit
  }
  room->resize(size);
  return true;
}

ChunkCodec::Encoded ChunkCodec::Encode(
    const Encoded& plainest,
    std::span<const std::byte> buffer,
    std::span<const std::byte> previous,
    std::vector<std::byte>* room) {
  PS_CHECK(buffer.size() % kPlanes == 0) << buffer.size();
  PS_CHECK(previous.empty() || previous.size() == buffer.size()) << previous.size();
  const size_t count = buffer.size() / kPlanes;
  shuffled_.resize(buffer.size());
  Encoded best = plainest;
  Shuffle(buffer.data(), nullptr, count, shuffled_.data());
  if (Compress(best.bytes.size(), room)) {
    best = {.encoding = Encoding::kPlain, .bytes = *room};
  }
  if (!previous.empty()) {
    Shuffle(buffer.data(), previous.data(), count, shuffled_.data());
    std::vector<std::byte> delta;
    if (Compress(best.bytes.size(), &delta)) {
      room->swap(delta);
      best = {.encoding = Encoding::kDelta, .bytes = *room};
    }
  }
  return best;
}

ChunkCodec::Encoded ChunkCodec::Pack(
    std::span<const std::byte> buffer, std::vector<std::byte>* room) {
  const size_t count = buffer.size() / kPlanes;
  room->resize(count * sizeof(uint16_t));
  for (size_t i = 0; i < count; ++i) {
    const auto upper = static_cast<uint16_t>(LoadWord(buffer.data() + i * kPlanes) / kBf16Unit);
    std::memcpy(room->data() + i * sizeof upper, &upper, sizeof upper);
  }
  return {.encoding = Encoding::kBf16, .bytes = *room};
}

Status ChunkCodec::Decode(
    Encoding encoding, std::span<const std::byte> stored, std::span<std::byte> target) {
  if (encoding == Encoding::kRaw) {
    if (stored.size() != target.size()) {
      return Status::Corruption("its record is longer or shorter than it says");
    }
    std::memcpy(target.data(), stored.data(), stored.size());
    return Status::Ok();
  }
  if (encoding == Encoding::kBf16) {
    return Unpack(stored, target);
  }
  if (contexts_->decompress == nullptr) {
    contexts_->decompress.reset(ZSTD_createDCtx());
  }
  shuffled_.resize(target.size());
  const size_t size = ZSTD_decompressDCtx(
      contexts_->decompress.get(),
      shuffled_.data(),
      shuffled_.size(),
      stored.data(),
      stored.size());
  if (ZSTD_isError(size) != 0 || size != target.size()) {
    return Status::Corruption("its compressed values are damaged");
  }
  Unshuffle(shuffled_.data(), target.size() / kPlanes, encoding == Encoding::kDelta, target.data());
  return Status::Ok();
}

}  // namespace ps::checkpoint
