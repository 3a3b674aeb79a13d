// Parameters that travel as differences to what each worker holds (exchange.pull).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

class DifferencesTest : public E2eTest, public testing::WithParamInterface<std::string> {
 protected:
  DifferencesTest() { job_.Set("exchange", R"({"push": "int8", "pull": "int8"})"); }

  static uint64_t HeldBytes(const proto::JobStatus& status) {
    uint64_t bytes = 0;
    for (const proto::ShardRow& shard : status.shards) {
      bytes += shard.stats.held_bytes;
    }
    return bytes;
  }
};

TEST_P(DifferencesTest, ParametersComeInAQuarterOfTheBytesAndItLearns) {
  job_.SetData(4096, 1000)
      .Set("optimizer", R"({"kind": "adam", "lr": 0.001})")
      .Set("workers", R"([{"count": 2}])")
      .Set("train", R"({"epochs": 3, "minibatch": 32, "mode": ")" + GetParam() + R"("})");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectExactLedger();
  const Json summary = run.Summary();
  const auto model_bytes =
      static_cast<double>(std::filesystem::file_size(run.Root() + "/model.safetensors"));
  EXPECT_LT(summary["bytes_pulled_per_sample"].number(), 0.3 * model_bytes / 32);
  EXPECT_GT(summary["bytes_pulled_per_sample"].number(), 0.2 * model_bytes / 32);
  EXPECT_GT(summary["test_accuracy"].number(), 0.6);
}

TEST_P(DifferencesTest, WorkersAndServersThatAreKilledChangeNothingOfIt) {
  job_.SetEndless(R"("mode": ")" + GetParam() + R"(")")
      .Set("workers", R"([{"count": 3, "step_ms": 20}])")
      .Set("checkpoint", R"({"every_s": 0.3})");
  TrainRun run(job_);
  const auto before = run.WaitFor([](const proto::JobStatus& status) {
    return status.checkpoints.newest >= 2 && Alive(status).size() == 3 && HeldBytes(status) > 0;
  });
  ASSERT_TRUE(before.has_value());
  ASSERT_EQ(::kill(static_cast<pid_t>(Alive(*before)[0].pid), SIGKILL), 0);
  const auto two = run.WaitFor([&](const proto::JobStatus& status) {
    return Alive(status).size() == 2 && status.samples_counted > before->samples_counted + 256;
  });
  ASSERT_TRUE(two.has_value());
  ASSERT_EQ(::kill(static_cast<pid_t>(two->shards[1].pid), SIGKILL), 0);
  const auto after = run.WaitFor([&](const proto::JobStatus& status) {
    return status.shards[1].pid != two->shards[1].pid &&
           std::ranges::all_of(status.shards, [](const proto::ShardRow& shard) {
             return shard.state == proto::ShardRowState::kReady;
           });
  });
  ASSERT_TRUE(after.has_value());
  EXPECT_TRUE(run.WaitForSamples(after->samples_counted + 640).has_value());
  // Two workers are left, each with a copy on each server, as the next heartbeats say.
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
    const uint64_t parameters =
        status.shards[0].stats.parameter_bytes + status.shards[1].stats.parameter_bytes;
    return HeldBytes(status) == 2 * parameters;
  })) << "copies of who is gone stay, or some are missing";
  StopCleanly(&run);
}

INSTANTIATE_TEST_SUITE_P(
    InMode, DifferencesTest, testing::Values("async", "bsp"), [](const auto& info) {
      return info.param;
    });

}  // namespace
}  // namespace ps::e2e
