// Workers of different kinds of device train one model.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::HasSubstr;

/// Workers are emulated_worker: the sources of ps_worker, whose CUDA device is that of
/// tests/cuda_emulation. It computes the same, some thousand times slower than the CPU.
class MixedFleetTest : public E2eTest {
 protected:
  void SetUp() override {
    E2eTest::SetUp();
    const std::string script = folder_ / "launch.sh";
    WriteText(
        script,
        "role=$1; shift\n"
        "if [ \"$role\" = worker ]; then shift; set -- '" PS_EMULATED_WORKER
        "' \"$@\"; fi\n"
        "exec \"$@\"\n");
    job_.Set("launch", R"({"prefix": "/bin/sh )" + script + R"( {role}"})");
    job_.Set(
        "model",
        R"({"layers": [
          {"kind": "conv2d", "out": 4, "kernel": 3, "stride": 2, "bias": false},
          {"kind": "batch_norm"}, {"kind": "relu"}, {"kind": "max_pool", "kernel": 2},
          {"kind": "flatten"}, {"kind": "linear", "out": 10}]})");
    job_.SetData(512, 100);
  }
};

TEST_F(MixedFleetTest, ACpuAndACudaDeviceTrainOneModel) {
  job_.Set("optimizer", R"({"kind": "adam", "lr": 0.01})")
      .Set("train", R"({"epochs": 3, "minibatch": 16, "mode": "bsp"})")
      .Set("workers", R"([{"count": 1, "device": "cpu"}, {"count": 1, "device": "cuda"}])");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{}) << run.psctl().Err();
  run.ExpectExactLedger();
  const Json summary = run.Summary();
  const Json& workers = summary["workers"];
  ASSERT_EQ(workers.size(), 2U);
  EXPECT_EQ(workers[0]["device"].text(), "cpu");
  EXPECT_EQ(workers[1]["device"].text(), "cuda:0");
  EXPECT_THAT(ReadText(run.Root() + "/logs/worker1.log"), HasSubstr("cuda:0 (emulated"));
  // Rounds: each has as many samples of the one as of the other.
  EXPECT_GT(workers[0]["samples_counted"].number(), 3 * 512 / 3);
  EXPECT_GT(workers[1]["samples_counted"].number(), 3 * 512 / 3);
  EXPECT_EQ(summary["samples_rejected"].number(), 0);
  const Json& losses = summary["evaluations"];
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_LT(losses[0]["loss"].number(), 2.3) << "chance";
  EXPECT_LT(losses[2]["loss"].number(), losses[0]["loss"].number());
  EXPECT_GT(summary["test_accuracy"].number(), 0.5);
  run.ExpectNothingLeft();
}

}  // namespace
}  // namespace ps::e2e
