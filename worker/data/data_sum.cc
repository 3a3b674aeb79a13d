#include "worker/data/data_sum.h"

#include <algorithm>
#include <array>
#include <vector>

#include "ps/base/crc32c.h"

namespace ps::worker {
namespace {

constexpr uint64_t kBlocks = 2048;
constexpr size_t kBlockBytes = 4096;
constexpr size_t kSummedPieceBytes = size_t{1} << 20;

}  // namespace

uint32_t DataSum(
    uint64_t bytes, const std::function<void(uint64_t begin, std::span<std::byte> out)>& read) {
  uint32_t crc = 0;
  if (bytes <= kReadInFullMax) {
    std::vector<std::byte> piece(std::min<uint64_t>(bytes, kSummedPieceBytes));
    for (uint64_t begin = 0; begin < bytes; begin += piece.size()) {
      const std::span<std::byte> out =
          std::span(piece).first(std::min<uint64_t>(piece.size(), bytes - begin));
      read(begin, out);
      crc = Crc32c(out, crc);
    }
    return crc;
  }
  crc = Crc32c(std::as_bytes(std::span(&bytes, 1)));
  std::array<std::byte, kBlockBytes> block{};
  const uint64_t last = bytes - kBlockBytes;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    // The product has room for 2^44 bytes.
    read(last * i / (kBlocks - 1), block);
    crc = Crc32c(block, crc);
  }
  return crc;
}

uint32_t DataSum(std::span<const std::byte> data) {
  return data.size() <= kReadInFullMax
             ? Crc32c(data)
             : DataSum(data.size(), [&](uint64_t begin, std::span<std::byte> out) {
                 std::ranges::copy(data.subspan(begin, out.size()), out.begin());
               });
}

}  // namespace ps::worker
