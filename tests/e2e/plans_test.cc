// Plans run on this machine, and what a run leaves for planning.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::HasSubstr;

class PlanTest : public E2eTest {
 protected:
  std::string WritePlan(const std::string& fields, const std::string& link_bytes_per_s) {
    const std::string path = job_.folder() + "/plan.json";
    WriteText(
        path,
        R"({"job": ")" + job_.name() + R"(", "strategy": "exact", "speed_model": "queue", )" +
            fields +
            R"("workers": [
             {"instance_type": "fast", "count": 2, "minibatch": 32, "compute_s": 0.05},
             {"instance_type": "slow", "count": 1, "minibatch": 64, "compute_s": 0.1}],
             "servers": {"instance_type": "host", "count": 1, "link_bytes_per_s": )" +
            link_bytes_per_s + R"(},
             "samples_per_s": {"value": 900, "low": 800, "high": 1000},
             "steps": {"value": 100, "low": 90, "high": 110},
             "seconds": {"value": 5, "low": 4, "high": 6},
             "usd": {"value": 1, "low": 1, "high": 1}})");
    return path;
  }

  std::string PlanPath() const { return job_.folder() + "/plan.json"; }

  /// What `psctl plan` writes there for this machine's own workers.
  std::string PlanBy(const std::string& profile_path, double loss) {
    const std::string catalog =
        std::filesystem::absolute("configs/catalog/this_machine.json").string();
    const Output output = RunToEnd(
        {.program = "psctl",
         .arguments =
             {"plan",
              job_.path(),
              "--profile",
              profile_path,
              "--catalog",
              catalog,
              "--loss",
              std::to_string(loss),
              "-o",
              PlanPath()},
         .directory = job_.folder(),
         .output_stem = job_.folder() + "/plan"});
    EXPECT_EQ(output.end, ProcessEnd{}) << output.err;
    return ReadText(PlanPath());
  }
};

TEST_F(PlanTest, APlanRunsItsFleetAndIsHeldAgainstWhatHappened) {
  job_.Set("train", R"({"epochs": 50, "minibatch": 32})");
  TrainRun run(
      job_, {.arguments = {"--plan", WritePlan(R"("loss_target": 1.8, )", "40e6"), "--json"}});
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  const Json summary = run.Summary();
  EXPECT_EQ(summary["state"].text(), "stopped") << "the loss is reached long before 50 epochs";
  ASSERT_EQ(summary["workers"].size(), 3U);
  const Json& plan = summary["plan"];
  EXPECT_GT(plan["seconds"]["measured"].number(), 0);
  EXPECT_GT(plan["steps"]["measured"].number(), 0);
  EXPECT_EQ(plan["samples_per_s"]["predicted"].number(), 900);
  EXPECT_THAT(ReadText(run.Root() + "/summary.txt"), HasSubstr("against the plan"));
  run.ExpectNothingLeft();
}

TEST_F(PlanTest, ARunWithALinkLimitMovesNoMoreThanThat) {
  const std::string plan = WritePlan("", "5e6");
  job_.SetEndless();
  TrainRun run(job_, {.arguments = {"--plan", plan}});
  // Four times as long as it may move what it has for a second at once.
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
    return status.elapsed_s >= 5 && status.steps_counted > 5;
  })) << run.psctl().Err();
  const Json summary = StopCleanly(&run);
  // 5 MB/s each way, and some for the connections' first bytes.
  const double bytes_max = 5e6 * summary["elapsed_s"].number() + 4e6;
  EXPECT_LE(summary["bytes_pushed"].number(), bytes_max);
  EXPECT_LE(summary["bytes_pulled"].number(), bytes_max);
  EXPECT_GT(summary["steps_counted"].number(), 5);
}

TEST_F(PlanTest, ARunLeavesAProfileOfItsJob) {
  job_.Set("workers", R"([{"count": 2, "step_ms": 40, "type": "forty"}])")
      .SetEndless()
      .Set("fleet", R"({"max_detect_s": 2})");
  TrainRun run(job_);
  // Enough for points of a loss curve, and for 4 s at the speed that is padded to.
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
    return status.steps_counted >= 200;
  })) << run.psctl().Err();
  StopCleanly(&run);
  const auto profile = Json::Parse(ReadText(run.Root() + "/profile.json"));
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ((*profile)["job"].text(), job_.name());
  ASSERT_EQ((*profile)["workers"].size(), 1U);
  EXPECT_EQ((*profile)["workers"][0]["instance_type"].text(), "forty");
  EXPECT_GE((*profile)["workers"][0]["compute_s"].number(), 0.04);
  ASSERT_EQ((*profile)["fleets"].size(), 1U);
  EXPECT_LE((*profile)["fleets"][0]["steps_per_s"].number(), 2 / 0.04 * 1.05);
  EXPECT_GT((*profile)["losses"].size(), 3U);
}

TEST_F(PlanTest, AProfileIsMeasuredPlannedWithAndRefinedByEveryLaterRunOfItsJob) {
  job_.Set("workers", R"([{"step_ms": 20}])").Set("fleet", R"({"max_detect_s": 1})");
  job_.Write();
  const std::string path = job_.folder() + "/profile.json";
  const Output output = RunToEnd(
      {.program = "psctl",
       .arguments =
           {"profile",
            job_.path(),
            "-o",
            path,
            "--seconds",
            "3",
            "--curve-seconds",
            "3",
            "--curve-repeats",
            "1"},
       .directory = job_.folder(),
       .output_stem = job_.folder() + "/profile"},
      kRunPatience);
  ASSERT_EQ(output.end, ProcessEnd{}) << output.err;
  EXPECT_THAT(output.err, HasSubstr("2 workers"));
  EXPECT_THAT(output.out, HasSubstr("written to " + path));
  const auto profile = Json::Parse(ReadText(path));
  ASSERT_TRUE(profile.has_value());
  EXPECT_GE((*profile)["workers"].size(), 4U) << "four minibatches, and a slowed worker";
  EXPECT_GE((*profile)["workers"][0]["compute_s"].number(), 0.02);
  EXPECT_EQ((*profile)["fleets"].size(), 3U);
  EXPECT_GT((*profile)["request_bytes_per_s"].number(), 0);
  EXPECT_THAT(output.err, HasSubstr("losses of 8 workers"));
  EXPECT_GT((*profile)["losses"].size(), 20U);
  ASSERT_GT((*profile)["curves"]["samples"].number(), 0) << "no curve was fitted";
  // A loss that all of its fleets came to.
  const double loss = (*profile)["curves"]["loss_min"].number();
  const std::string plan = PlanBy(path, loss);
  EXPECT_EQ(PlanBy(path, loss), plan);
  job_.Set("train", R"({"epochs": 1000, "minibatch": 64})")
      .Set("run", R"({"directory": ")" + job_.runs() + R"(", "seconds_max": 4})");
  // It ends where the loss is reached, which may be too early to learn from.
  TrainRun planned(job_, {.arguments = {"--plan", PlanPath(), "--no-refine"}});
  ASSERT_EQ(planned.WaitForEnd(), ProcessEnd{});
  EXPECT_THAT(planned.psctl().Out(), HasSubstr("against the plan"));
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_THAT(run.psctl().Err(), HasSubstr("profile.json refined by the bytes of a step"));
  const std::string text = ReadText(path);
  const auto refined = Json::Parse(text);
  ASSERT_TRUE(refined.has_value());
  // Other tests may crowd the machine meanwhile.
  const bool is_crowded = Contains(run.psctl().Err(), "profile.json: left out speeds, since");
  EXPECT_EQ((*refined)["fleets"].size(), is_crowded ? 3U : 4U);
  EXPECT_GT((*refined)["losses"].size(), (*profile)["losses"].size());
  EXPECT_NE(PlanBy(path, loss), plan) << "it goes by the same profile";
  job_.Set("optimizer", R"({"kind": "adam"})");
  TrainRun other(job_);
  ASSERT_EQ(other.WaitForEnd(), ProcessEnd{});
  EXPECT_THAT(
      other.psctl().Err(),
      HasSubstr("the profile is left as it is: profile.json is of a job that trains otherwise"));
  EXPECT_EQ(ReadText(path), text);
}

}  // namespace
}  // namespace ps::e2e
