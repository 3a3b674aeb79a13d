// A worker's step alone, without servers: forward, backward and the optimizer where the parameters
// are, beside the same whose gradients come to the host, as they do for a push of each minibatch.
// --job takes any job, such as those that scripts/compare_pytorch.py writes for PyTorch's models.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/threads.h"
#include "ps/base/tensor_spec.h"
#include "ps/proto/chunks.h"
#include "ps/proto/job/device_choice.h"
#include "tests/bench/harness.h"
#include "worker/data/dataset.h"
#include "worker/device.h"
#include "worker/model/model.h"
#include "worker/trainer.h"

namespace ps::bench {
namespace {

/// A trainer of the job with parameters and a gradient.
class Bench {
 public:
  Bench(
      const proto::JobConfig& config, const std::vector<std::shared_ptr<kernels::Backend>>& devices)
      : config_(config), trainer_(Take(worker::Trainer::Make(config, devices))) {
    const proto::TensorLayout layout(trainer_->TensorElements());
    const auto bytes = static_cast<size_t>(layout.element_count()) * sizeof(float);
    parameters_ = Take(trainer_->MakeBuffer(bytes));
    gradient_ = Take(trainer_->MakeBuffer(bytes));
    const auto info = Take(worker::Dataset::Inspect(config.data));
    samples_ = info.train_count;
    Require(samples_ >= config.train.minibatch, "there are as many samples as a minibatch has");
    const auto model = Take(worker::MakeModel(config.model, info.shape, info.classes, info.labels));
    for (size_t i = 0; i < model.tensors.size(); ++i) {
      const int64_t offset = layout.OffsetOf(i);
      const int64_t count = model.tensors[i].element_count();
      const std::span<float> values =
          parameters_.floats().subspan(static_cast<size_t>(offset), static_cast<size_t>(count));
      InitializeTensor(
          model.tensors[i], static_cast<uint32_t>(i), config.train.seed, 0, values.data(), count);
      if (trainer_->has_copies()) {
        trainer_->Upload({offset, values});
      }
    }
    trainer_->Settle();
  }

  /// So many minibatches in one step, with the optimizer of the worker; or a step for each.
  void Train(uint64_t minibatches, bool is_local) {
    const uint64_t minibatch = config_.train.minibatch;
    const uint64_t of_push = std::max<uint64_t>(config_.train.local_steps, 1);
    const uint64_t at_once = is_local ? std::min(of_push, samples_ / minibatch) : 1;
    while (minibatches > 0) {
      const uint64_t count = std::min(minibatches, at_once);
      client::ComputeTask task;
      task.step = ++step_;
      task.begin = at_ + count * minibatch > samples_ ? 0 : at_;
      task.end = task.begin + count * minibatch;
      task.minibatch = static_cast<uint32_t>(minibatch);
      task.local_steps = static_cast<uint32_t>(count);
      task.is_local = is_local;
      at_ = task.end;
      // As a worker does: of local steps the trainer foresees by itself.
      const uint64_t next = task.end + minibatch > samples_ ? 0 : task.end;
      bool has_foreseen = is_local;
      const auto foresee = [&](uint32_t /*tensor*/) {
        if (!std::exchange(has_foreseen, true)) {
          trainer_->Foresee({0, next, next + minibatch});
        }
      };
      const auto done =
          trainer_->Step(task, {parameters_.floats(), gradient_.floats()}, {.on_ready = foresee});
      Require(done.ok(), "a step is made: " + std::string(done.status().message()));
      minibatches -= count;
    }
  }

  /// Samples per second, of about so long.
  double RateOf(bool is_local, double seconds) {
    Train(2, is_local);  // makes what a step needs, and records it
    uint64_t count = 1;
    double took = 0;
    while (true) {
      const double begin = WallSeconds();
      Train(count, is_local);
      took = WallSeconds() - begin;
      if (took >= seconds || count >= kMinibatchesMax) {
        break;
      }
      const double wanted = static_cast<double>(count) * seconds / std::max(took, 1e-4);
      count = std::min(kMinibatchesMax, std::max(2 * count, static_cast<uint64_t>(wanted)));
    }
    return static_cast<double>(count) * static_cast<double>(config_.train.minibatch) / took;
  }

 private:
  static constexpr uint64_t kMinibatchesMax = 1 << 16;

  template <typename T>
  static T Take(Result<T> result) {
    Require(result.ok(), "the job can be trained: " + std::string(result.status().message()));
    return std::move(result).value();
  }

  const proto::JobConfig config_;
  const std::unique_ptr<worker::Trainer> trainer_;
  Buffer parameters_;
  Buffer gradient_;
  uint64_t samples_ = 0;
  uint64_t at_ = 0;
  Step step_ = 0;
};

proto::JobConfig ConfigOf(const BenchArguments& arguments) {
  if (!arguments.job.empty()) {
    auto config = proto::LoadJobConfig(arguments.job);
    Require(config.ok(), "the job is one: " + std::string(config.status().message()));
    return std::move(config).value();
  }
  if (!std::filesystem::exists(PS_FASHION_MNIST)) {
    std::printf(
        "SKIP: no dataset at %s; apt-get install dataset-fashion-mnist, or name a job by --job\n",
        PS_FASHION_MNIST);
    std::exit(77);
  }
  proto::JobConfig config;
  config.name = "bench";
  config.model.name = "cnn";
  config.data.directory = PS_FASHION_MNIST;
  config.data.train_samples = arguments.is_tiny ? 256 : 30000;
  config.train.minibatch = 64;
  return config;
}

void Main(const BenchArguments& arguments) {
  const auto choice = proto::ParseDevice(arguments.device);
  Require(choice.ok(), "--device " + std::string(choice.status().message()));
  auto device = worker::OpenDevice(*choice, WorkerId(0), worker::Products::kFastest);
  if (!device.ok()) {
    std::printf("SKIP: %s\n", std::string(device.status().message()).c_str());
    std::exit(77);
  }
  kernels::SetComputeThreads(1);
  const proto::JobConfig config = ConfigOf(arguments);
  Bench bench(config, device->backends);
  const double seconds = arguments.is_tiny ? 0 : 1;
  const std::vector<Samples> results = MeasureInTurn(
      arguments.runs,
      {[&] { return bench.RateOf(true, seconds); }, [&] { return bench.RateOf(false, seconds); }},
      arguments.is_tiny ? 0 : 1);
  std::printf(
      "step: job %s on %s, minibatch %u, %u runs, median (MAD)\n",
      config.name.c_str(),
      device->backends.front()->Name().c_str(),
      config.train.minibatch,
      arguments.runs);
  Table table({"a step", "samples/s", "of the first"});
  table.Add({"alone, with its optimizer", Spread(results[0], 1), "100 %"});
  table.Add(
      {"gradients come to the host, without",
       Spread(results[1], 1),
       Fixed(PercentOf(results[1], results[0]).Median(), 0) + " %"});
  table.Print();
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  ps::bench::Main(ps::bench::ReadBenchArguments(argc, argv, {.has_device = true, .has_job = true}));
  return 0;
}
