// What a training step waits for its data: fetched when it is wanted, against fetched on a thread
// of its own while the step before is computed. Pictures of Fashion-MNIST, moved and mirrored.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/threads.h"
#include "ps/proto/chunks.h"
#include "tests/bench/harness.h"
#include "worker/trainer.h"

namespace ps::bench {
namespace {

constexpr uint64_t kBatch = 64;

/// A model's steps, on data of its own.
class Steps {
 public:
  explicit Steps(const std::string& model) {
    proto::JobConfig config;
    config.model.name = model;
    config.data.directory = PS_FASHION_MNIST;
    config.data.train_samples = kSamples;
    config.data.test_samples = 1;
    config.data.augment = {4, true};
    trainer_ = worker::Trainer::Make(config, {kernels::MakeCpuBackend()}).value();
    const proto::TensorLayout layout(trainer_->TensorElements());
    parameters_ = Buffer(static_cast<size_t>(layout.element_count()) * sizeof(float));
    gradient_ = Buffer(parameters_.size());
    std::ranges::fill(parameters_.floats(), 0.01F);
  }

  /// Milliseconds that a step waits for its data, of `count` steps.
  double Wait(uint64_t count, bool is_ahead) {
    kernels::SetComputeThreads(1);
    const double waited = trainer_->data_figures().waited_s;
    const double begin = WallSeconds();
    for (uint64_t i = 0; i < count; ++i) {
      client::ComputeTask task;
      task.begin = at_;
      task.end = at_ + kBatch;
      at_ = task.end + kBatch <= kSamples ? task.end : 0;
      if (is_ahead) {
        trainer_->Foresee({0, at_, at_ + kBatch});
      }
      const worker::TaskTensors tensors{parameters_.floats(), gradient_.floats()};
      Require(trainer_->Step(task, tensors, [](uint32_t) {}).ok(), "a step was computed");
    }
    step_ms_ = (WallSeconds() - begin) / static_cast<double>(count) * 1e3;
    return (trainer_->data_figures().waited_s - waited) / static_cast<double>(count) * 1e3;
  }

  /// Of the last Wait.
  double step_ms() const { return step_ms_; }

 private:
  static constexpr uint64_t kSamples = 4096;

  std::unique_ptr<worker::Trainer> trainer_;
  Buffer parameters_;
  Buffer gradient_;
  uint64_t at_ = 0;
  double step_ms_ = 0;
};

void Main(const BenchArguments& arguments) {
  std::printf(
      "data: minibatches of %llu pictures, one compute thread, %u runs, ms, median (MAD)\n",
      static_cast<unsigned long long>(kBatch),
      arguments.runs);
  Table table({"model", "fetched", "waits for data", "whole step", "of the step"});
  for (const std::string model : {"mlp", "cnn"}) {
    Steps steps(model);
    const uint64_t count = arguments.is_tiny ? 2 : 200;
    std::vector<double> whole[2];
    const auto run = [&](bool is_ahead) {
      const double wait = steps.Wait(count, is_ahead);
      whole[is_ahead ? 1 : 0].push_back(steps.step_ms());
      return wait;
    };
    const std::vector<Samples> waits =
        MeasureInTurn(arguments.runs, {[&] { return run(false); }, [&] { return run(true); }});
    for (int i = 0; i < 2; ++i) {
      whole[i].erase(whole[i].begin());  // the warm-up
      const Samples step{whole[i]};
      table.Add(
          {model,
           i == 0 ? "when wanted" : "ahead",
           Spread(waits[static_cast<size_t>(i)], 4),
           Spread(step, 3),
           Fixed(waits[static_cast<size_t>(i)].Median() / step.Median() * 100, 2) + " %"});
    }
  }
  table.Print();
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  const auto arguments = ps::bench::ReadBenchArguments(argc, argv);
  if (!std::filesystem::exists(PS_FASHION_MNIST)) {
    std::printf(
        "SKIP: no dataset at %s; apt-get install dataset-fashion-mnist\n", PS_FASHION_MNIST);
    return 77;
  }
  ps::bench::Main(arguments);
  return 0;
}
