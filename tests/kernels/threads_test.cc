#include "kernels/cpu/threads.h"

#include <gtest/gtest.h>

#include <thread>

namespace ps::kernels {
namespace {

TEST(ComputeThreadsTest, BelongToTheCallingThread) {
  SetComputeThreads(2);
  std::thread([] {
    SetComputeThreads(1);
    EXPECT_EQ(ComputeThreads(), 1);
  }).join();
  EXPECT_EQ(ComputeThreads(), 2);
  SetComputeThreads(1);
}

TEST(ComputeThreadsTest, AreAtLeastOne) {
  SetComputeThreads(0);
  EXPECT_EQ(ComputeThreads(), 1);
}

}  // namespace
}  // namespace ps::kernels
