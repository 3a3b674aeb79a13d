#include "worker/trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/backend.h"
#include "ps/proto/chunks.h"
#include "tests/worker/data/data_files.h"
#include "tests/worker/model/model_builder.h"

namespace ps::worker::test {
namespace {

/// One step of a small job: its gradient, and how often a tensor was said to be ready.
struct TakenStep {
  std::vector<float> gradient;
  int ready_count = 0;

  double norm() const {
    double sum = 0;
    for (const float g : gradient) {
      sum += double{g} * g;
    }
    return std::sqrt(sum);
  }
};

TakenStep TakeStep(const TemporaryFolder& folder, float clip_norm) {
  proto::JobConfig config;
  config.data.directory = folder.path();
  config.model.layers = {Flatten(), Linear(3)};
  config.optimizer.clip_norm = clip_norm;
  const Result<std::unique_ptr<Trainer>> trainer = Trainer::Make(config, kernels::MakeCpuBackend());
  PS_CHECK(trainer.ok()) << trainer.status();
  const int64_t elements = proto::TensorLayout((*trainer)->TensorElements()).element_count();
  const std::vector<float> parameters(static_cast<size_t>(elements), 0.1F);
  TakenStep taken;
  taken.gradient.resize(parameters.size());
  client::ComputeTask task;
  task.begin = 3;
  task.end = 11;
  task.parameters = parameters;
  task.gradient = taken.gradient;
  const auto done = (*trainer)->Step(task, [&](uint32_t /*tensor*/) { ++taken.ready_count; });
  PS_CHECK(done.ok()) << done.status();
  return taken;
}

TEST(TrainerTest, ClipNormScalesTheWholeGradient) {
  const TemporaryFolder folder;
  WriteIdxSet(folder, 20, 7);
  const TakenStep whole = TakeStep(folder, 0);
  EXPECT_EQ(whole.ready_count, 2);
  ASSERT_GT(whole.norm(), 0);
  const TakenStep clipped = TakeStep(folder, static_cast<float>(whole.norm() / 4));
  EXPECT_EQ(clipped.ready_count, 2);
  EXPECT_NEAR(clipped.norm(), whole.norm() / 4, 1e-5);
  for (size_t i = 0; i < whole.gradient.size(); ++i) {
    EXPECT_NEAR(clipped.gradient[i], whole.gradient[i] / 4, 1e-5) << i;
  }
  EXPECT_EQ(TakeStep(folder, static_cast<float>(whole.norm() * 2)).gradient, whole.gradient);
}

}  // namespace
}  // namespace ps::worker::test
