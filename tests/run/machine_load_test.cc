#include "run/machine_load.h"

#include <gtest/gtest.h>

namespace ps::run {
namespace {

TEST(MachineLoadTest, IdleAndWaitingForDisksIsNotBusyButStolenTimeIs) {
  const ProcessorTime time =
      ParseProcessorTime("cpu  100 1 20 700 30 2 3 40 5 6\ncpu0 9 9 9 9 9 9 9 9 9 9\n");
  EXPECT_EQ(time.total, 100U + 1 + 20 + 700 + 30 + 2 + 3 + 40) << "guests are counted in user";
  EXPECT_EQ(time.busy, 100U + 1 + 20 + 2 + 3 + 40);
}

TEST(MachineLoadTest, WhatIsNoSuchLineCountsAsNothing) {
  for (const char* text :
       {"", "cpu", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 x 4 5 6 7 8\n", "cpu 1 2\n3 4 5 6 7 8"}) {
    EXPECT_EQ(ParseProcessorTime(text), ProcessorTime()) << text;
  }
}

TEST(MachineLoadTest, TheShareIsThatOfTheTimeBetween) {
  EXPECT_DOUBLE_EQ(BusyShare({100, 1000}, {175, 1100}), 0.75);
  EXPECT_EQ(BusyShare({100, 1000}, {100, 1000}), 0) << "no time passed";
  EXPECT_EQ(BusyShare({100, 1000}, {50, 1100}), 0) << "counters went back";
}

TEST(MachineLoadTest, ThisMachineCanBeRead) {
  const ProcessorTime time = ReadProcessorTime();
  EXPECT_GT(time.busy, 0U);
  EXPECT_GE(time.total, time.busy);
}

}  // namespace
}  // namespace ps::run
