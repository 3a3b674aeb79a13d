#include "ps/base/buffer.h"

#include <cstdint>
#include <type_traits>
#include <utility>

#include "gtest/gtest.h"

namespace ps {
namespace {

TEST(BufferTest, EverySizeIsAlignedToACacheLine) {
  for (size_t size = 1; size < 300; ++size) {
    Buffer buffer(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment, 0U) << size;
    buffer.bytes().back() = std::byte{1};
  }
}

TEST(BufferTest, ALargeOneBeginsWithAHugePage) {
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  for (const size_t size : {size_t{4} << 20, (size_t{7} << 20) + 1}) {
    Buffer buffer(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kHugePage, 0U) << size;
    buffer.bytes().front() = std::byte{1};
    buffer.bytes().back() = std::byte{2};
    const Buffer moved = std::move(buffer);
    EXPECT_EQ(moved.bytes().front(), std::byte{1});
    EXPECT_EQ(moved.bytes().back(), std::byte{2});
  }
}

TEST(BufferTest, AnEmptyBufferHoldsNothing) {
  Buffer buffer(0);
  EXPECT_EQ(buffer.size(), 0U);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_TRUE(buffer.bytes().empty());
  EXPECT_TRUE(buffer.floats().empty());
}

TEST(BufferTest, AMovedFromBufferIsEmpty) {
  Buffer source(64);
  const std::byte* const data = source.data();
  Buffer target(std::move(source));
  EXPECT_EQ(target.data(), data);
  EXPECT_EQ(target.size(), 64U);
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what is tested
  EXPECT_EQ(source.size(), 0U);
  EXPECT_TRUE(source.bytes().empty());

  Buffer other(8);
  other = std::move(target);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(other.size(), 64U);
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what is tested
  EXPECT_EQ(target.size(), 0U);
}

TEST(BufferTest, FloatsLeaveOutAShortTail) {
  Buffer buffer(11);
  EXPECT_EQ(buffer.floats().size(), 2U);
}

TEST(BufferTest, MemoryOfAnotherKindIsKeptAsLongAsTheBuffer) {
  const auto memory = std::make_shared<std::byte>();
  Buffer kept;
  {
    Buffer made(memory.get(), 1, memory);
    EXPECT_EQ(made.data(), memory.get());
    kept = std::move(made);
  }
  EXPECT_EQ(memory.use_count(), 2);
  kept = Buffer(16);
  EXPECT_EQ(memory.use_count(), 1);
}

TEST(BufferTest, CopyingIsNotPossible) {
  static_assert(!std::is_copy_constructible_v<Buffer>);
  static_assert(!std::is_copy_assignable_v<Buffer>);
}

}  // namespace
}  // namespace ps
