// Workers that train on some minibatches by themselves before they push (train.local_steps).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

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

INSTANTIATE_TEST_SUITE_P(
    InMode, LocalStepsTest, testing::Values("async", "ssp", "bsp"), [](const auto& info) {
      return info.param;
    });

}  // namespace
}  // namespace ps::e2e
