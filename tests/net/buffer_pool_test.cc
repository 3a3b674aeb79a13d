#include "ps/net/internal/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace ps::net {
namespace {

TEST(BufferPoolTest, BuffersAreAlignedAndAtMostAnEighthTooLarge) {
  const auto pool = std::make_shared<BufferPool>(1 << 20);
  for (const size_t size :
       {size_t{0},
        size_t{1},
        size_t{4096},
        size_t{4097},
        size_t{100'000},
        size_t{1} << 20,
        (size_t{8} << 20) + 1}) {
    const auto buffer = pool->Take(size);
    EXPECT_GE(buffer->size(), size);
    EXPECT_LE(buffer->size(), size + std::max<size_t>(size / 8, 4096));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kBufferAlignment, 0U);
  }
}

TEST(BufferPoolTest, AReturnedBufferIsTakenAgain) {
  const auto pool = std::make_shared<BufferPool>(1 << 20);
  auto buffer = pool->Take(100'000);
  const std::byte* memory = buffer->data();
  buffer.reset();
  EXPECT_GT(pool->free_bytes(), 0U);
  buffer = pool->Take(99'999);
  EXPECT_EQ(buffer->data(), memory);
  EXPECT_EQ(pool->free_bytes(), 0U);
}

TEST(BufferPoolTest, UnusedMemoryStaysWithinItsLimitAndPrefersWhatIsInUse) {
  const auto pool = std::make_shared<BufferPool>(100'000);
  std::vector<std::shared_ptr<Buffer>> taken;
  for (int i = 0; i < 10; ++i) {
    taken.push_back(pool->Take(32'768));
  }
  taken.clear();
  EXPECT_EQ(pool->free_bytes(), 3U * 32'768);
  pool->Take(65'536).reset();
  EXPECT_LE(pool->free_bytes(), 100'000U);
  EXPECT_GE(pool->free_bytes(), 65'536U);
  pool->Take(200'000).reset();  // never kept
  EXPECT_LE(pool->free_bytes(), 100'000U);
}

TEST(BufferPoolTest, BuffersMayOutliveTheirPoolsOwnerAndReturnOnAnyThread) {
  auto pool = std::make_shared<BufferPool>(1 << 20);
  std::vector<std::shared_ptr<Buffer>> taken;
  for (int i = 0; i < 8; ++i) {
    taken.push_back(pool->Take(5'000));
  }
  pool.reset();
  std::thread other(
      [half = std::vector(taken.begin(), taken.begin() + 4)]() mutable { half.clear(); });
  taken.clear();
  other.join();
}

}  // namespace
}  // namespace ps::net
