// Workers that train on some minibatches by themselves before they push (train.local_steps).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

class LocalStepsTest : public E2eTest, public testing::WithParamInterface<std::string> {
 protected:
  /// Steps of forty minibatches of 32, each of 50 ms at least.
  Job& LocalJob() {
    return job_.SetEndless(R"("local_steps": 40, "mode": ")" + GetParam() + R"(")")
        .Set("workers", R"([{"count": 3, "step_ms": 50}])")
        .Set("optimizer", R"({"kind": "adam", "lr": 0.001})");
  }
};

TEST_P(LocalStepsTest, TheModelTravelsOnceForAllOfThemAndLearns) {
  job_.SetData(4096, 1000)
      .Set("optimizer", R"({"kind": "adam", "lr": 0.001})")
      .Set(
          "train",
          R"({"epochs": 3, "minibatch": 32, "local_steps": 8, "mode": ")" + GetParam() + R"("})");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectExactLedger();
  const Json summary = run.Summary();
  EXPECT_EQ(summary["steps_counted"].number(), 3 * 16) << "of 256 samples";
  const auto model_bytes =
      static_cast<double>(std::filesystem::file_size(run.Root() + "/model.safetensors"));
  EXPECT_LT(summary["bytes_pushed_per_sample"].number(), 1.05 * model_bytes / 256);
  EXPECT_GT(summary["test_accuracy"].number(), 0.5);
}

TEST_P(LocalStepsTest, AKilledWorkerCostsItsStepAndANoticeWhatItHasNotDoneOfIt) {
  TrainRun run(LocalJob());
  // In their second step or later: nobody knows how long the first takes.
  const auto training = run.WaitFor([](const proto::JobStatus& status) {
    return Alive(status).size() == 3 && status.steps_counted > 3;
  });
  ASSERT_TRUE(training.has_value());
  const std::vector<proto::WorkerRow> rows = Alive(*training);
  ::kill(static_cast<pid_t>(rows[0].pid), SIGKILL);
  // A second is shorter than a step, and longer than a minibatch and its push.
  const std::string name = std::to_string(rows[1].worker.value);
  const Output told = Psctl({"notice", "--grace", "1s", name, run.Root()});
  EXPECT_EQ(told.end, ProcessEnd{}) << told.err;
  const auto alone =
      run.WaitFor([](const proto::JobStatus& status) { return Alive(status).size() == 1; });
  ASSERT_TRUE(alone.has_value());
  EXPECT_TRUE(run.WaitForSamples(alone->samples_counted + 1280).has_value());
  const Json summary = StopCleanly(&run);
  for (size_t i = 0; i < summary["workers"].size(); ++i) {
    const Json& row = summary["workers"][i];
    if (row["worker"].number() == rows[1].worker.value) {
      EXPECT_NE(std::fmod(row["samples_counted"].number(), 40 * 32), 0) << "a part of a step";
    }
  }
}

TEST_P(LocalStepsTest, PeopleChangeWhatStepsHaveWhileTheyAreMade) {
  TrainRun run(LocalJob());
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& status) { return status.steps_counted > 1; })
                  .has_value());
  const Output refused = Psctl({"set", "train.minibatch=16", run.Root()});
  EXPECT_NE(refused.end, ProcessEnd{});
  EXPECT_THAT(refused.err, testing::HasSubstr("can't change while the job trains"));
  const Output set =
      Psctl({"set", "exchange.push=int8", "exchange.pull=bf16", "train.local_steps=4", run.Root()});
  EXPECT_EQ(set.end, ProcessEnd{}) << set.err;
  // Steps of 6.4 s, then of 0.2 s: so many come of the new ones alone.
  const auto changed = run.WaitFor([](const proto::JobStatus& status) {
    return status.steps.changes == 1 && status.steps_counted > 40;
  });
  ASSERT_TRUE(changed.has_value());
  EXPECT_EQ(changed->steps.in_force.local_steps, 4U);
  EXPECT_TRUE(std::ranges::any_of(changed->workers, [](const proto::WorkerRow& row) {
    return row.stats.times.held_back > 0;
  })) << "int8 loses something";
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(summary["exchange"]["push"].text(), "int8");
  EXPECT_EQ(summary["exchange"]["local_steps"].number(), 4);
}

INSTANTIATE_TEST_SUITE_P(
    InMode, LocalStepsTest, testing::Values("async", "ssp", "bsp"), [](const auto& info) {
      return info.param;
    });

}  // namespace
}  // namespace ps::e2e
