// Workers whose provider advises to move: one more is started before anything has happened.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/coordinator/checkpoint_fixture.h"

namespace ps::coordinator {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PrewarmTest : public CheckpointTest {
 protected:
  explicit PrewarmTest(
      const std::function<void(CoordinatorOptions*)>& change = [](CoordinatorOptions*) {})
      : CheckpointTest([&](CoordinatorOptions* options) {
          options->config.fleet.replace = true;
          options->config.checkpoint.every_s = 10'000;
          options->train_samples = 20'000;
          change(options);
        }) {}

  /// The first checkpoint is made, and the next one is due in hours.
  void BeginCalm() {
    Begin();
    Wait(seconds(3));
    Written();
    disk_.opened.clear();
    harness_.fleet.workers.clear();
  }

  /// The worker that was started joins and works.
  void Arrive(uint32_t seat) {
    workers_.push_back(harness_.Join(seat, 1000 + seat));
    grants_.push_back(harness_.Ask(&workers_.back()).value_or(proto::LeaseGrant{}));
  }

  bool IsTold(size_t worker) {
    return harness_.Take<proto::Drain>(workers_[worker].peer).has_value();
  }

  /// Everybody works all the time, so that nobody is thought to be stuck.
  void WorkFor(Duration duration) {
    for (const TimePoint end = harness_.now + duration; harness_.now < end;) {
      for (size_t i = 0; i < workers_.size(); ++i) {
        if (grants_[i].lease != LeaseId()) {
          harness_.Work(&workers_[i], grants_[i]);
          grants_[i] = harness_.Ask(&workers_[i]).value_or(proto::LeaseGrant{});
        }
      }
      Wait(seconds(5));
    }
  }
};

TEST_F(PrewarmTest, AdviceStartsOneMoreAndMakesACheckpointOnce) {
  BeginCalm();
  workers_[0].is_at_risk = true;
  workers_[1].is_at_risk = true;
  Wait(seconds(2));
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(3))
      << "one for the group, however many are at risk";
  EXPECT_THAT(disk_.opened, ElementsAre(2));
  Written();
  Arrive(3);
  Wait(seconds(2));
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
  EXPECT_THAT(disk_.opened, ElementsAre(2));
  for (size_t i = 0; i < workers_.size(); ++i) {
    EXPECT_FALSE(IsTold(i)) << i;
  }
}

TEST_F(PrewarmTest, WhatIsNoNoticeIsToldOnceWithItsReason) {
  BeginCalm();
  const std::string what = "Azure event (Preempt), which is of vm-7";
  const auto told = [&] {
    return std::ranges::count_if(harness_.core->StatusAt(harness_.now).events, [&](const auto& e) {
      return e.code == proto::EventCode::kNoticeIgnored && e.text.ends_with(": " + what);
    });
  };
  workers_[0].ignored = workers_[1].ignored = what;
  Wait(seconds(2));
  EXPECT_EQ(told(), 1) << "one for all that hear of it";
  workers_[0].ignored = workers_[1].ignored = "";
  Wait(seconds(2));
  workers_[1].ignored = what;
  Wait(seconds(2));
  EXPECT_EQ(told(), 2) << "it is announced anew";
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty()) << "nobody goes";
}

TEST_F(PrewarmTest, WhenTheNoticeComesNobodyElseIsStarted) {
  BeginCalm();
  workers_[0].is_at_risk = true;
  Wait(seconds(2));
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(3));
  Arrive(3);
  harness_.Give(workers_[0].peer, proto::Goodbye{workers_[0].incarnation, "EC2", {}});
  workers_.erase(workers_.begin());
  grants_.erase(grants_.begin());
  Wait(seconds(2));
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
  for (size_t i = 0; i < workers_.size(); ++i) {
    EXPECT_FALSE(IsTold(i)) << i;
  }
}

TEST_F(PrewarmTest, WhenNothingFollowsTheOneMoreIsReleasedAndNoOtherComes) {
  BeginCalm();
  workers_[0].is_at_risk = true;
  Wait(seconds(2));
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(3));
  Arrive(3);
  WorkFor(minutes(9));
  EXPECT_FALSE(IsTold(3));
  WorkFor(minutes(2));
  EXPECT_TRUE(IsTold(3));
  EXPECT_FALSE(IsTold(0)) << "it has work and a machine";
  harness_.Give(workers_[3].peer, proto::Goodbye{workers_[3].incarnation, "release", {}});
  workers_.pop_back();
  grants_.pop_back();
  WorkFor(minutes(1));
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
  EXPECT_EQ(harness_.status().revocations_noticed, 0U);
}

TEST_F(PrewarmTest, AdviceThatIsTakenBackEndsIt) {
  BeginCalm();
  workers_[0].is_at_risk = true;
  Wait(seconds(2));
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(3));
  Arrive(3);
  workers_[0].is_at_risk = false;
  Wait(seconds(2));
  EXPECT_TRUE(IsTold(3));
}

TEST_F(PrewarmTest, AnotherCoordinatorKnowsOfTheRisk) {
  BeginCalm();
  workers_[0].is_at_risk = true;
  Wait(seconds(2));
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(3));
  Arrive(3);
  harness_.Restart();
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  Wait(seconds(2));
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
  EXPECT_FALSE(IsTold(3));
}

class NoPrewarmTest : public PrewarmTest {
 protected:
  NoPrewarmTest() : PrewarmTest([](CoordinatorOptions* o) { o->config.fleet.prewarm = false; }) {}
};

TEST_F(NoPrewarmTest, AJobMayDoWithoutIt) {
  BeginCalm();
  workers_[0].is_at_risk = true;
  Wait(seconds(2));
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
  EXPECT_THAT(disk_.opened, IsEmpty());
}

}  // namespace
}  // namespace ps::coordinator
