#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// One worker of a job of 200 steps. It may be silent for long.
class TrendsTest : public ::testing::Test {
 protected:
  TrendsTest() : harness_(Options()), worker_(harness_.StartWithWorkers()[0]) {}

  static CoordinatorOptions Options() {
    CoordinatorOptions options = SmallJob();
    options.config.workers = {{1, 0, 1, 1}};
    options.config.fleet.max_detect_s = 200;
    options.train_samples = 2000;
    return options;
  }

  /// So many steps of this loss, a tick apart.
  void Steps(int count, double loss) {
    for (int i = 0; i < count; ++i) {
      harness_.Wait(harness_.timing.tick, {worker_});
      if (!grant_ || next_ == grant_->end) {
        grant_ = harness_.Ask(&worker_);
        ASSERT_TRUE(grant_) << i;
        next_ = grant_->begin;
      }
      proto::StepDone done = harness_.MakeStep(&worker_, *grant_, next_);
      next_ = done.end;
      done.loss_sum = loss * static_cast<double>(done.end - done.begin);
      harness_.Give(worker_.peer, proto::StepReport{worker_.incarnation, {done}});
      harness_.Complete(worker_, done.step);
    }
  }

  /// What was told of them, in words.
  std::vector<std::string> Told() {
    std::vector<std::string> texts;
    for (const proto::EventRow& event : harness_.core->StatusAt(harness_.now).events) {
      if (event.code >= proto::EventCode::kLossSpike &&
          event.code <= proto::EventCode::kStalenessGrew) {
        texts.push_back(event.text);
      }
    }
    return texts;
  }

  Harness harness_;
  FakeWorker worker_;
  std::optional<proto::LeaseGrant> grant_;
  uint64_t next_ = 0;
};

TEST_F(TrendsTest, ALossThatJumpsIsAnEventAndSoIsItsEnd) {
  Steps(80, 0.5);
  EXPECT_THAT(Told(), IsEmpty());
  Steps(30, 1.5);
  Steps(20, 0.5);
  EXPECT_THAT(
      Told(),
      ElementsAre(
          "the loss of the last 10 steps is 0.8, and was 0.5 before",
          "the loss is 0.6 again, after 36 steps"));
}

TEST_F(TrendsTest, StepsThatStayAwayAreAnEventUnlessTheRunIsPaused) {
  Steps(20, 0.5);  // one a tick
  harness_.Wait(harness_.timing.tick * 15, {worker_});
  EXPECT_THAT(Told(), IsEmpty());
  harness_.Wait(harness_.timing.tick * 10, {worker_});
  ASSERT_EQ(Told().size(), 1U);
  EXPECT_THAT(Told()[0], testing::HasSubstr("psctl why tells who waits for what"));
  Steps(1, 0.5);
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::PauseRequest{true});
  harness_.Wait(harness_.timing.tick * 50, {worker_});
  EXPECT_EQ(Told().size(), 1U);
}

}  // namespace
}  // namespace ps::coordinator
