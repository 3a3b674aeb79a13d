#include "ps/emulation/emulation.h"

#include <gmock/gmock.h>

namespace ps::emulation {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(EmulationTest, AJobThatAsksForNothingGetsNothing) {
  EXPECT_THAT(ArgumentsOf(OfWorker({})), IsEmpty());
  EXPECT_THAT(ArgumentsOf(OfServer({})), IsEmpty());
  EXPECT_FALSE(MakeLink(0).has_value());
  EXPECT_FALSE(MakeDevice(1, Duration()).has_value());
}

TEST(EmulationTest, WhatAJobAsksForTravelsAsFlags) {
  proto::WorkerGroup group;
  group.step_ms = 12.5F;
  group.link_mbit_per_s = 100;
  EXPECT_THAT(
      ArgumentsOf(OfWorker(group)),
      ElementsAre("--emulate-step-us", "12500", "--emulate-link-bytes-per-s", "12500000"));
  proto::ServerConfig servers;
  servers.link_mbit_per_s = 1e-6F;
  EXPECT_THAT(ArgumentsOf(OfServer(servers)), ElementsAre("--emulate-link-bytes-per-s", "1"));
  EXPECT_TRUE(MakeDevice(1.5, Duration()).has_value());
  EXPECT_TRUE(MakeDevice(1, FromSeconds(0.1)).has_value());
}

}  // namespace
}  // namespace ps::emulation
