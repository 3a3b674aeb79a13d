#include "ps/base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

namespace ps {
namespace {

UniqueFd Open() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool IsOpen(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

TEST(UniqueFdTest, ItIsClosedWithItsOwner) {
  int number = -1;
  {
    const UniqueFd fd = Open();
    number = fd.get();
    ASSERT_TRUE(fd.is_open());
    EXPECT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST(UniqueFdTest, AMovedOneBelongsToTheNewOwnerAlone) {
  UniqueFd from = Open();
  const int number = from.get();
  UniqueFd to(std::move(from));
  EXPECT_EQ(to.get(), number);
  EXPECT_FALSE(from.is_open());  // NOLINT(bugprone-use-after-move): that it holds none is the point
  from.Reset();
  EXPECT_TRUE(IsOpen(number));
}

TEST(UniqueFdTest, AssignmentClosesWhatWasHeld) {
  UniqueFd first = Open();
  UniqueFd second = Open();
  const int closed = first.get();
  const int kept = second.get();
  first = std::move(second);
  EXPECT_FALSE(IsOpen(closed));
  EXPECT_EQ(first.get(), kept);
  EXPECT_TRUE(IsOpen(kept));
}

TEST(UniqueFdTest, AReleasedOneStaysOpen) {
  UniqueFd fd = Open();
  const UniqueFd again(fd.Release());
  EXPECT_FALSE(fd.is_open());
  EXPECT_TRUE(IsOpen(again.get()));
}

}  // namespace
}  // namespace ps
