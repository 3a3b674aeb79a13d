// Plans and predictions of jobs that exchange after several minibatches.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"
#include "tests/psctl/plan_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// The shipped profile behind links of 20 Mbit/s, with penalties or without.
class LocalStepsPlanTest : public PlanFixture {
 protected:
  void SetUp() override {
    PlanFixture::SetUp();
    profile_ = proto::ParseProfile(ReadAll(kProfilePath), kProfilePath).value();
    profile_.request_bytes_per_s = 20e6 / 8;
    Write();
  }

  void Write() { ASSERT_TRUE(WriteFileAtomically(path(), proto::PrintProfile(profile_)).ok()); }

  std::string path() const { return root_ / "thin.json"; }

  std::vector<std::string> With(std::vector<std::string> more) const {
    std::vector<std::string> all = {"--profile", path(), "--catalog", kCatalogPath};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  proto::Plan PlanOf(const std::string& command, std::vector<std::string> more) {
    std::vector<std::string> all = With(std::move(more));
    all.insert(all.begin(), command);
    all.emplace_back("--json");
    EXPECT_EQ(Run(all), 0) << err_;
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    EXPECT_TRUE(plan.ok()) << plan.status() << out_;
    return plan.ok() ? *plan : proto::Plan();
  }

  proto::Plan Predict(std::vector<std::string> more) {
    more.insert(more.end(), {"--fleet", "p3.2xlarge=1", "--ps", "m5.xlarge=1"});
    return PlanOf("predict", std::move(more));
  }

  std::string ErrorOf(std::vector<std::string> arguments) {
    EXPECT_EQ(Run(std::move(arguments)), run::kExitMisused);
    return err_;
  }

  proto::JobProfile profile_;
};

TEST_F(LocalStepsPlanTest, APredictionTellsTimeComputingAndBytesOfOtherStepsAndEncodings) {
  const proto::Plan single = Predict({});
  EXPECT_EQ(single.local_steps, 1);
  EXPECT_DOUBLE_EQ(single.push_bytes_per_sample, 11.5e6 / 1024);
  const double step_s = 1024 / single.samples_per_s.value;
  EXPECT_NEAR(single.computing, 0.378964 / step_s, 1e-6);
  EXPECT_LT(single.computing, 0.05);

  const proto::Plan several = Predict({"--local-steps", "50"});
  EXPECT_EQ(several.local_steps, 50);
  EXPECT_DOUBLE_EQ(several.push_bytes_per_sample, 11.5e6 / 1024 / 50);
  EXPECT_DOUBLE_EQ(several.pull_bytes_per_sample, 11.5e6 / 1024 / 50);
  const double transfers_s = 2 * 11.5e6 / (20e6 / 8);
  EXPECT_NEAR(step_s - 1024 / several.samples_per_s.value, transfers_s * 49 / 50, 1e-2);
  EXPECT_GT(several.computing, 0.6);
  EXPECT_THAT(
      several.notes,
      Contains(AllOf(
          HasSubstr("measured with 1 local steps"),
          HasSubstr("was not measured and is taken as nothing"),
          HasSubstr("psctl profile --local-steps 1,50"))));

  const proto::Plan rounded = Predict({"--push", "int8", "--pull", "bf16"});
  constexpr int kScales = 11'231;  // of 2,875,000 values, one for each 256
  EXPECT_DOUBLE_EQ(rounded.push_bytes_per_sample, (11.5e6 / 4 + 4.0 * kScales) / 1024);
  EXPECT_DOUBLE_EQ(rounded.pull_bytes_per_sample, 11.5e6 / 2 / 1024);
  EXPECT_THAT(
      rounded.notes,
      Contains(AllOf(
          HasSubstr("what push int8, pull bf16 does to the loss was not measured"),
          HasSubstr("psctl profile --push int8 --pull bf16 measures it"))));
  EXPECT_DOUBLE_EQ(
      Predict({"--pull", "int8"}).pull_bytes_per_sample,
      (0.99 * (11.5e6 / 4 + 4.0 * kScales) + 0.01 * 11.5e6 / 2) / 1024);
  EXPECT_DOUBLE_EQ(
      Predict({"--push-bytes-factor", "0.25"}).push_bytes_per_sample, 11.5e6 / 4 / 1024);
}

TEST_F(LocalStepsPlanTest, APredictionShowsThem) {
  const std::vector<std::string> all =
      With({"--fleet", "p3.2xlarge=2", "--ps", "m5.xlarge=1", "--local-steps", "8"});
  std::vector<std::string> command = {"predict"};
  command.insert(command.end(), all.begin(), all.end());
  ASSERT_EQ(Run(command), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("local steps     8\n"));
  EXPECT_THAT(out_, HasSubstr("of the workers' time\n"));
  EXPECT_THAT(out_, HasSubstr("1.4 KiB to the servers, 1.4 KiB back\n"));
}

TEST_F(LocalStepsPlanTest, MeasuredPenaltiesAreCountedAndSaid) {
  profile_.penalties = {{.local_steps = 8, .mode = "async", .samples = 1.25}};
  Write();
  const std::vector<std::string> goal = {"--loss", "0.8"};
  const double single = Predict(goal).steps.value;
  const proto::Plan several = Predict({"--loss", "0.8", "--local-steps", "8"});
  EXPECT_NEAR(several.steps.value, 1.25 * single, 1e-6 * single);
  EXPECT_THAT(several.notes, Contains(HasSubstr("1.25 times the samples with 8 local steps")));
}

TEST_F(LocalStepsPlanTest, MeasuredPenaltiesOfEncodingsAreCountedAndSaid) {
  profile_.penalties = {
      {.local_steps = 8, .mode = "async", .samples = 1.25},
      {.local_steps = 8, .push = "int8", .mode = "async", .samples = 1.5}};
  Write();
  const double single = Predict({"--loss", "0.8"}).steps.value;
  const proto::Plan rounded = Predict({"--loss", "0.8", "--local-steps", "8", "--push", "int8"});
  EXPECT_NEAR(rounded.steps.value, 1.5 * single, 1e-6 * single);
  EXPECT_EQ(rounded.push, "int8");
  EXPECT_EQ(rounded.pull, "") << "the job's own";
  EXPECT_THAT(
      rounded.notes, Contains(HasSubstr("1.50 times the samples with 8 local steps, push int8")));
  // Of single minibatches as int8 no run was, so the factor is that of 8.
  EXPECT_NEAR(
      Predict({"--loss", "0.8", "--push", "int8"}).steps.value, 1.2 * single, 1e-6 * single);
}

// 0.1 for each doubling of the local steps and for each encoding, beside the curve's 0.05.
TEST_F(LocalStepsPlanTest, WhatNobodyMeasuredIsLessCertain) {
  const auto spread_of = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--loss", "0.8"});
    const proto::Estimate steps = Predict(more).steps;
    return std::log(steps.high / steps.value);
  };
  const double own = spread_of({});
  const double doubled = spread_of({"--local-steps", "2"});
  EXPECT_NEAR(doubled / own, std::hypot(0.05, 0.1) / 0.05, 1e-6);
  EXPECT_GT(spread_of({"--local-steps", "50"}), 2 * doubled);
  EXPECT_NEAR(spread_of({"--push", "int8"}), doubled, 1e-9);
  EXPECT_GT(
      spread_of({"--local-steps", "50", "--push", "int8"}), spread_of({"--local-steps", "50"}));
  // What was measured is as certain as the curve, for about as many workers as it was measured
  // with.
  profile_.penalties = {{.local_steps = 50, .mode = "async", .samples = 1.25}};
  Write();
  const auto spread_with = [&](const std::string& fleet) {
    const proto::Plan plan = PlanOf(
        "predict",
        {"--loss", "0.8", "--local-steps", "50", "--fleet", fleet, "--ps", "m5.xlarge=1"});
    EXPECT_THAT(plan.notes, Contains(HasSubstr("in mode async with 2 workers")));
    return std::log(plan.steps.high / plan.steps.value);
  };
  EXPECT_NEAR(spread_with("p3.2xlarge=2"), own, 1e-9);
  EXPECT_GT(spread_with("p3.2xlarge=4"), 1.2 * own);
  EXPECT_GT(spread_with("p3.2xlarge=8"), spread_with("p3.2xlarge=4"));
}

TEST_F(LocalStepsPlanTest, AProfileOfAnEncodingIsOfItsBytes) {
  profile_.push = "int8";
  profile_.push_bytes = 3e6;
  Write();
  EXPECT_DOUBLE_EQ(Predict({}).push_bytes_per_sample, 3e6 / 1024);
  EXPECT_DOUBLE_EQ(Predict({"--push", "int8"}).push_bytes_per_sample, 3e6 / 1024);
  EXPECT_DOUBLE_EQ(Predict({"--push", "f32"}).push_bytes_per_sample, 11.5e6 / 1024);
}

const std::vector<std::string> kGoal = {
    "--loss", "0.8", "--within", "12h", "--servers", "m5.xlarge=1"};

TEST_F(LocalStepsPlanTest, ThePlanIsTheBestOfThoseOfEachNumber) {
  // Each exchange less is worth more than what it costs, until samples are 1.6 times as many.
  profile_.penalties = {
      {.local_steps = 8, .mode = "async", .samples = 1.02},
      {.local_steps = 50, .mode = "async", .samples = 1.1},
      {.local_steps = 1000, .mode = "async", .samples = 1.9}};
  Write();
  std::vector<std::string> chosen_by = kGoal;
  chosen_by.insert(chosen_by.end(), {"--local-steps-max", "1000"});
  const proto::Plan chosen = PlanOf("plan", chosen_by);
  std::map<int, double> usd;
  for (const int steps : {1, 2, 4, 8, 16, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1000}) {
    std::vector<std::string> fixed = kGoal;
    fixed.insert(fixed.end(), {"--local-steps", std::to_string(steps)});
    std::vector<std::string> all = With(fixed);
    all.insert(all.begin(), "plan");
    all.emplace_back("--json");
    if (Run(all) == 0) {
      usd[steps] = proto::ParsePlan(out_, "plan.json").value().usd.value;
    }
  }
  const auto best = std::ranges::min_element(
      usd, [](const auto& a, const auto& b) { return a.second < b.second; });
  EXPECT_EQ(chosen.local_steps, best->first);
  EXPECT_DOUBLE_EQ(chosen.usd.value, best->second);
  EXPECT_GT(chosen.local_steps, 8);
  EXPECT_LT(chosen.local_steps, 1000);
  EXPECT_THAT(
      chosen.notes.front(),
      AllOf(
          HasSubstr("local steps " + std::to_string(chosen.local_steps) + " of 1, 2, 4, 8"),
          HasSubstr("; next best ")));
  const auto is_other = [](const proto::PlanAlternative& other) {
    return other.kind.starts_with("local steps ");
  };
  EXPECT_EQ(std::ranges::count_if(chosen.alternatives, is_other), 2);
  EXPECT_EQ(chosen.certainty, proto::Certainty::kBoundsChecked);
}

TEST_F(LocalStepsPlanTest, ThePlanIsTheBestOfThoseOfEachEncoding) {
  profile_.penalties = {
      {.local_steps = 50, .mode = "async", .samples = 1.4},
      {.local_steps = 1, .push = "int8", .mode = "async", .samples = 1.01},
      {.local_steps = 1, .push = "int4", .mode = "async", .samples = 1.9}};
  Write();
  std::vector<std::string> chosen_by = kGoal;
  chosen_by.insert(
      chosen_by.end(), {"--local-steps-max", "50", "--push", "f32,int8,int4,topk:0.01"});
  const proto::Plan chosen = PlanOf("plan", chosen_by);
  std::map<std::pair<int, std::string>, double> usd;
  for (const int steps : {1, 2, 4, 8, 16, 32, 50}) {
    for (const std::string push : {"f32", "int8", "int4"}) {
      std::vector<std::string> fixed = kGoal;
      fixed.insert(fixed.end(), {"--local-steps", std::to_string(steps), "--push", push});
      std::vector<std::string> all = With(fixed);
      all.insert(all.begin(), "plan");
      all.emplace_back("--json");
      if (Run(all) == 0) {
        usd[{steps, push}] = proto::ParsePlan(out_, "plan.json").value().usd.value;
      }
    }
  }
  const auto best = std::ranges::min_element(
      usd, [](const auto& a, const auto& b) { return a.second < b.second; });
  EXPECT_EQ(chosen.local_steps, best->first.first);
  EXPECT_EQ(chosen.push, best->first.second);
  EXPECT_EQ(chosen.push, "int8") << "nearly free, and a quarter of the bytes";
  EXPECT_DOUBLE_EQ(chosen.usd.value, best->second);
  EXPECT_THAT(
      chosen.notes.front(),
      AllOf(HasSubstr(", push int8 and pull f32 of 21 exchanges"), HasSubstr("; next best ")));
  EXPECT_THAT(
      chosen.notes,
      Contains(AllOf(
          HasSubstr("push topk:0.01 with pull f32 were not looked at"),
          HasSubstr("psctl profile --push topk:0.01 measures it"))));
}

TEST_F(LocalStepsPlanTest, WhatWasNotMeasuredIsLeftOutBeyondTheJobsOwn) {
  std::vector<std::string> wide = kGoal;
  wide.insert(wide.end(), {"--local-steps-max", "8"});
  std::vector<std::string> all = With(wide);
  all.insert(all.begin(), "plan");
  all.emplace_back("--json");
  const int code = Run(all);
  // Alone, single minibatches may miss the goal; what counts is what is said.
  if (code == 0) {
    const auto plan = proto::ParsePlan(out_, "plan.json");
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->local_steps, 1);
    EXPECT_THAT(plan->notes, Contains(HasSubstr("local steps 2, 4, 8 were not looked at")));
  }
  // A profile of rounds knows no more than its own, and looks at fewer by itself.
  profile_.local_steps = 8;
  Write();
  const proto::Plan own = PlanOf("plan", kGoal);
  EXPECT_EQ(own.local_steps, 8);
  EXPECT_THAT(own.notes.front(), HasSubstr("local steps 8 of 1, 2, 4, 8:"));
}

TEST_F(LocalStepsPlanTest, OfEqualPlansTheOneWithTheFewestLocalStepsIsTaken) {
  profile_.request_bytes_per_s = 0;
  profile_.local_steps = 8;
  profile_.push_bytes = profile_.pull_bytes = 1;  // nothing to save
  profile_.parameter_bytes = 1;
  Write();
  EXPECT_LE(PlanOf("plan", kGoal).local_steps, 8);
}

TEST_F(LocalStepsPlanTest, AProfileIsRefusedWhatItCannotMeasure) {
  const std::string job = "configs/fashion_mnist_mlp_bsp.json";
  EXPECT_THAT(
      ErrorOf({"profile", job, "--local-steps", "1,0"}), HasSubstr("numbers from 1 to 10000"));
  EXPECT_THAT(ErrorOf({"profile", job, "--push", "int2"}), HasSubstr("--push: "));
  EXPECT_THAT(ErrorOf({"profile", job, "--pull", "topk:0.1"}), HasSubstr("exchange.pull"));
}

TEST_F(LocalStepsPlanTest, WhatMakesNoSenseIsRefused) {
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = With(kGoal);
    all.insert(all.begin(), "plan");
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  EXPECT_THAT(
      ErrorOf(with({"--local-steps-max", "8", "--local-steps", "4"})),
      HasSubstr("--local-steps-max lets a plan choose"));
  EXPECT_THAT(
      ErrorOf(with({"--local-steps-max", "8", "--strategy", "homogeneous"})),
      HasSubstr("is of the strategy exact"));
  EXPECT_THAT(ErrorOf(with({"--local-steps", "20000"})), HasSubstr("from 1 to 10000"));
  EXPECT_THAT(ErrorOf(with({"--push", "int2"})), HasSubstr("there are f32, bf16"));
  EXPECT_THAT(ErrorOf(with({"--push", "int8,int2"})), HasSubstr("there are f32, bf16"));
  EXPECT_THAT(
      ErrorOf(with({"--push", "f32,int8", "--strategy", "homogeneous"})),
      HasSubstr("are of the strategy exact"));
  EXPECT_THAT(
      ErrorOf(with({"--push", "int8,int4"})), HasSubstr("nothing is left to choose among: "));
  EXPECT_THAT(ErrorOf(with({"--push-bytes-factor", "-1"})), HasSubstr("above 0"));
}

}  // namespace
}  // namespace ps::psctl
