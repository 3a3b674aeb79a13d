#include "provisioner/profile/start_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ps::provisioner {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A run whose members are what the test says, looked at once a second.
class StartMeterTest : public ::testing::Test {
 protected:
  TimePoint Now() const { return TimePoint(std::chrono::seconds(second_)); }

  /// The machine of the worker was asked for now; it was up `machine_s` later, 0: nobody knows.
  void Order(uint64_t launch, const std::string& type = "g4dn.xlarge", int machine_s = 0) {
    proto::WorkerStart start;
    start.launch = LaunchId(launch);
    start.type = type;
    start.zone = "zone-a";
    start.asked = Now();
    if (machine_s > 0) {
      start.machine_up = Now() + std::chrono::seconds(machine_s);
    }
    meter_.Begin(start);
  }

  proto::MemberRecord& Join(uint64_t launch) {
    proto::MemberRecord& member = members_[Incarnation(++incarnations_)];
    member.incarnation = Incarnation(incarnations_);
    member.launch = LaunchId(launch);
    return member;
  }

  void Pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      ++second_;
      meter_.Look(members_, state_, Now());
    }
  }

  /// It joined 5 s after its order, had its data 3 s later, and a step after 2 s more.
  void StartWell(uint64_t launch) {
    Order(launch);
    Pass(4);
    proto::MemberRecord& member = Join(launch);
    Pass(3);
    member.has_asked = true;
    Pass(2);
    member.samples_counted = 32;
    Pass(1);
  }

  StartMeter meter_{"ec2"};
  std::map<Incarnation, proto::MemberRecord> members_;
  proto::RunState state_ = proto::RunState::kTraining;
  uint64_t incarnations_ = 0;
  int second_ = 1000;
};

TEST_F(StartMeterTest, AStartHasItsMachineItsJoinAndItsFirstStep) {
  Order(1, "g4dn.xlarge", 40);
  Pass(60);
  proto::MemberRecord& member = Join(1);
  Pass(20);
  member.has_asked = true;
  Pass(10);
  EXPECT_EQ(meter_.Starts().at(0).step_s, 0) << "none has counted";
  member.samples_counted = 32;
  Pass(100);
  ASSERT_THAT(meter_.Starts(), SizeIs(1));
  const proto::StartSample start = meter_.Starts().front();
  EXPECT_EQ(start.instance_type, "g4dn.xlarge");
  EXPECT_EQ(start.zone, "zone-a");
  EXPECT_EQ(start.launcher, "ec2");
  EXPECT_EQ(start.machine_s, 40);
  EXPECT_EQ(start.join_s, 61);
  EXPECT_EQ(start.step_s, 91) << "with its data";
}

/// The whole fleet begins with the slowest: that is no property of the others' types.
TEST_F(StartMeterTest, WhatTheFirstOnesWaitForOthersIsNotTheirStart) {
  state_ = proto::RunState::kStarting;
  Order(1, "fast");
  Order(2, "slow");
  Pass(9);
  proto::MemberRecord& fast = Join(1);
  Pass(5);
  fast.has_asked = true;
  Pass(286);
  proto::MemberRecord& slow = Join(2);
  slow.has_asked = true;
  Pass(1);
  state_ = proto::RunState::kTraining;
  Pass(1);
  fast.samples_counted = slow.samples_counted = 32;
  Pass(1);
  const std::vector<proto::StartSample> starts = meter_.Starts();
  ASSERT_THAT(starts, SizeIs(2));
  EXPECT_EQ(starts[0].instance_type, "fast");
  EXPECT_EQ(starts[0].join_s, 10);
  EXPECT_EQ(starts[0].step_s, 16) << "15 until it was ready, and 1 of training";
  EXPECT_EQ(starts[1].instance_type, "slow");
  EXPECT_EQ(starts[1].join_s, 301);
  EXPECT_EQ(starts[1].step_s, 302);
}

TEST_F(StartMeterTest, AWorkerThatNeverJoinsTellsNothing) {
  Order(1);
  Order(2);
  Pass(100);
  meter_.End(LaunchId(1));
  Pass(100);
  EXPECT_THAT(meter_.Starts(), IsEmpty());
}

TEST_F(StartMeterTest, OneThatIsLostBeforeAStepTellsWhenItJoined) {
  Order(1);
  Pass(9);
  Join(1);
  Pass(3);
  meter_.End(LaunchId(1));
  members_.clear();
  Pass(50);
  ASSERT_THAT(meter_.Starts(), SizeIs(1));
  EXPECT_EQ(meter_.Starts()[0].join_s, 10);
  EXPECT_EQ(meter_.Starts()[0].step_s, 0);
}

TEST_F(StartMeterTest, AReplacementIsMeasuredFromItsOwnOrder) {
  StartWell(1);
  Pass(200);
  meter_.End(LaunchId(1));  // its record stays for a while
  StartWell(2);
  const std::vector<proto::StartSample> starts = meter_.Starts();
  ASSERT_THAT(starts, SizeIs(2));
  EXPECT_EQ(starts[0].step_s, 10);
  EXPECT_EQ(starts[1].join_s, 5);
  EXPECT_EQ(starts[1].step_s, 10);
}

/// A coordinator that goes on with the run knows them by their launches, and not since when.
TEST_F(StartMeterTest, WorkersOfAnEarlierCoordinatorTellNothing) {
  Join(1).samples_counted = 3200;  // adopted
  proto::MemberRecord& joining = Join(2);
  Pass(10);
  joining.has_asked = true;
  joining.samples_counted = 32;
  Join(0);  // by hand
  Pass(10);
  EXPECT_THAT(meter_.Starts(), IsEmpty());
  StartWell(3);
  ASSERT_THAT(meter_.Starts(), SizeIs(1));
  EXPECT_EQ(meter_.Starts()[0].step_s, 10);
}

TEST_F(StartMeterTest, AStepAfterAPauseIsNoMeasureOfTheStart) {
  for (const proto::RunState idle : {proto::RunState::kPaused, proto::RunState::kWaiting}) {
    const uint64_t launch = incarnations_ + 1;
    Order(launch);
    Pass(4);
    proto::MemberRecord& member = Join(launch);
    state_ = idle;
    Pass(2);  // it loads its data meanwhile
    member.has_asked = true;
    Pass(600);
    state_ = proto::RunState::kTraining;
    Pass(2);
    member.samples_counted = 32;
    Pass(1);
    EXPECT_EQ(meter_.Starts().back().join_s, 5);
    EXPECT_EQ(meter_.Starts().back().step_s, 0);
  }
  EXPECT_THAT(meter_.Starts(), SizeIs(2));
}

TEST_F(StartMeterTest, WhoJoinsOnceMoreIsOneStart) {
  Order(1);
  Pass(4);
  Join(1);
  Pass(10);
  members_.clear();
  Pass(10);
  Join(1).samples_counted = 32;
  Pass(10);
  ASSERT_THAT(meter_.Starts(), SizeIs(1));
  EXPECT_EQ(meter_.Starts()[0].join_s, 5);
  EXPECT_EQ(meter_.Starts()[0].step_s, 25);
}

TEST_F(StartMeterTest, OfManyStartsTheNewestAreKept) {
  for (uint64_t launch = 1; launch <= StartMeter::kStartsMax + 10; ++launch) {
    Order(launch, launch <= 10 ? "old" : "new");
    Join(launch).samples_counted = 1;
    Pass(1);
    members_.clear();
  }
  ASSERT_THAT(meter_.Starts(), SizeIs(StartMeter::kStartsMax));
  EXPECT_EQ(meter_.Starts().front().instance_type, "new");
}

}  // namespace
}  // namespace ps::provisioner
