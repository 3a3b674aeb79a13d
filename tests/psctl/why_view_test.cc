#include "psctl/view/why_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/psctl/golden.h"
#include "tests/run/sample_status.h"

namespace ps::psctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Two workers, the second behind a thin link: it pushes for half of its time.
proto::JobStatus ThinLinks() {
  proto::JobStatus status = run::MakeStatus();
  status.steps.in_force.local_steps = 8;
  status.steps.wanted = status.steps.in_force;
  proto::WorkerStats& fast = status.workers[0].stats;
  fast.wait_s = 10;
  fast.times = {4, 3, 2, 0.5, 2, 0};
  proto::WorkerStats& thin = status.workers[1].stats;
  thin.wait_s = 70;
  thin.times = {50, 15, 0, 1, 2, 0};
  return status;
}

TEST(WhyViewTest, TheTimesTheLimitAndWhatWouldHelp) {
  EXPECT_EQ(RenderWhy(ThinLinks()), Golden("why_thin_links.txt"));
}

TEST(WhyViewTest, OneWorkerIsShownAlone) {
  const std::string text = RenderWhy(ThinLinks(), WorkerId(0));
  EXPECT_THAT(text, HasSubstr("\n0 "));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\n1 ")), Not(HasSubstr("\nall"))));
  EXPECT_THAT(text, HasSubstr("pushes of worker 0 take 8 % of its time"));
  EXPECT_THAT(RenderWhy(ThinLinks(), WorkerId(7)), HasSubstr("worker 7 has made no step yet"));
  EXPECT_THAT(
      RenderWhy(ThinLinks(), WorkerId(2)), HasSubstr("worker 2 has made no step yet, or is gone"));
}

TEST(WhyViewTest, WhoWaitsForSlowerWorkersIsToldOfTheSlowest) {
  proto::JobStatus status = run::MakeStatus();
  status.workers[0].stats.times.others_s = 9;
  status.workers[1].stats.compute_s = 45;
  status.workers[1].stats.wait_s = 1;
  const std::string text = RenderWhy(status);
  EXPECT_THAT(text, HasSubstr("worker 0 waits for slower workers 18 % of its time"));
  EXPECT_THAT(text, HasSubstr("psctl mode async: nobody waits for anybody"));
  EXPECT_THAT(text, HasSubstr("psctl drain 1: worker 1 is the slowest"));
}

TEST(WhyViewTest, WhereArithmeticTakesAllMoreWorkersHelp) {
  proto::JobStatus status = run::MakeStatus();
  for (proto::WorkerRow& row : status.workers) {
    row.stats.wait_s = 0.1;
  }
  const std::string text = RenderWhy(status);
  EXPECT_THAT(text, HasSubstr("arithmetic: nothing else takes 5 %"));
  EXPECT_THAT(text, HasSubstr("more or faster workers (psctl scale, psctl plan)"));
}

/// It can't change in this run, so another one is advised.
TEST(WhyViewTest, AJobWithoutLocalStepsIsToldHowManyItWouldNeed) {
  proto::JobStatus status = run::MakeStatus();
  for (proto::WorkerRow& row : status.workers) {
    row.stats.wait_s = 80;
    row.stats.times.push_s = 20;
    row.stats.times.pull_s = 60;
  }
  const std::string text = RenderWhy(status);
  EXPECT_THAT(text, HasSubstr("psctl set exchange.push=int8: workers compute for 33 %"));
  EXPECT_THAT(
      text, HasSubstr("psctl set exchange.pull=bf16: workers would compute for about 44 %"));
  EXPECT_THAT(text, HasSubstr("train.local_steps 38 in another run"));
}

}  // namespace
}  // namespace ps::psctl
