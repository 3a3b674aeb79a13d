#include "ps/base/crc32c.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "ps/base/random.h"

namespace ps {
namespace {

std::vector<std::byte> RandomBytes(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) {
    b = static_cast<std::byte>(random.Next());
  }
  return bytes;
}

std::vector<std::byte> Filled(size_t size, uint8_t value) {
  return std::vector<std::byte>(size, std::byte{value});
}

std::vector<std::byte> Counting(int first, int step) {
  std::vector<std::byte> bytes(32);
  for (int i = 0; i < 32; ++i) {
    bytes[static_cast<size_t>(i)] = static_cast<std::byte>(first + step * i);
  }
  return bytes;
}

// The vectors of RFC 3720, B.4, and the check value of the CRC catalogue.
TEST(Crc32cTest, MatchesThePublishedVectors) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(digits))), 0xe3069283U);
  EXPECT_EQ(Crc32c(Filled(32, 0x00)), 0x8a9136aaU);
  EXPECT_EQ(Crc32c(Filled(32, 0xff)), 0x62a8ab43U);
  EXPECT_EQ(Crc32c(Counting(0, 1)), 0x46dd794eU);
  EXPECT_EQ(Crc32c(Counting(31, -1)), 0x113fdb5cU);
}

TEST(Crc32cTest, PortableMatchesThePublishedVectors) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(Crc32cPortable(std::as_bytes(std::span(digits))), 0xe3069283U);
  EXPECT_EQ(Crc32cPortable(Filled(32, 0x00)), 0x8a9136aaU);
}

TEST(Crc32cTest, NothingHasCrcZeroAndExtendsNothing) {
  EXPECT_EQ(Crc32c({}), 0U);
  EXPECT_EQ(Crc32c({}, 0x12345678U), 0x12345678U);
  EXPECT_EQ(Crc32cInterleaved({}, 0x12345678U), 0x12345678U);
  EXPECT_EQ(Crc32cPortable({}, 0x12345678U), 0x12345678U);
}

TEST(Crc32cTest, HardwareEqualsPortableAtEveryLengthAndOffset) {
  const std::vector<std::byte> bytes = RandomBytes(2048, 1);
  for (size_t size = 0; size <= 1600; ++size) {
    const size_t offset = size % 9;
    const auto part = std::span(bytes).subspan(offset, size);
    const uint32_t expected = Crc32cPortable(part);
    ASSERT_EQ(Crc32c(part), expected) << "size " << size << " offset " << offset;
    ASSERT_EQ(Crc32cInterleaved(part), expected) << "size " << size << " offset " << offset;
  }
}

TEST(Crc32cTest, HardwareEqualsPortableAroundTheBlockSizes) {
  const std::vector<std::byte> bytes = RandomBytes((4U << 20) + 77, 2);
  for (const size_t size :
       {size_t{12287},
        size_t{12288},
        size_t{12289},
        size_t{24577},
        size_t{1} << 20,
        bytes.size()}) {
    const auto part = std::span(bytes).first(size);
    const uint32_t expected = Crc32cPortable(part, 0xdeadbeefU);
    ASSERT_EQ(Crc32c(part, 0xdeadbeefU), expected) << "size " << size;
    ASSERT_EQ(Crc32cInterleaved(part, 0xdeadbeefU), expected) << "size " << size;
  }
}

TEST(Crc32cTest, ChainedPartsEqualTheWhole) {
  const std::vector<std::byte> bytes = RandomBytes(40000, 3);
  const uint32_t whole = Crc32c(bytes);
  Random random(4);
  for (int trial = 0; trial < 50; ++trial) {
    uint32_t crc = 0;
    std::span<const std::byte> rest = bytes;
    while (!rest.empty()) {
      const size_t n = std::min<size_t>(rest.size(), random.Below(15000));
      crc = Crc32c(rest.first(n), crc);
      rest = rest.subspan(n);
    }
    ASSERT_EQ(crc, whole) << "trial " << trial;
  }
}

TEST(Crc32cTest, EveryFlippedBitIsSeen) {
  std::vector<std::byte> bytes = RandomBytes(1000, 5);
  const uint32_t good = Crc32c(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 7) {
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    bytes[bit / 8] ^= mask;
    ASSERT_NE(Crc32c(bytes), good) << "bit " << bit;
    bytes[bit / 8] ^= mask;
  }
}

}  // namespace
}  // namespace ps
