// What a training step waits for its data: fetched when it is wanted, against fetched on a thread
// of its own while the step before is computed. Pictures of Fashion-MNIST, moved and mirrored; then
// a source that takes its time, as a disk or a network does.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/threads.h"
#include "ps/proto/chunks.h"
#include "tests/bench/harness.h"
#include "worker/data/prefetcher.h"
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
      Require(trainer_->Step(task, tensors, {}).ok(), "a step was computed");
    }
    step_ms_ = (WallSeconds() - begin) / static_cast<double>(count) * 1e3;
    return (trainer_->data_figures().waited_s - waited) / static_cast<double>(count) * 1e3;
  }

  /// The step of the last Wait.
  double step_ms() const { return step_ms_; }

 private:
  static constexpr uint64_t kSamples = 4096;

  std::unique_ptr<worker::Trainer> trainer_;
  Buffer parameters_;
  Buffer gradient_;
  uint64_t at_ = 0;
  double step_ms_ = 0;
};

/// Steps that compute for `step_s`, on batches for which the source waits `fetch_s`.
class ThrottledSteps {
 public:
  ThrottledSteps(double step_s, double fetch_s) : step_s_(step_s), fetch_s_(fetch_s) {}

  /// As Steps::Wait.
  double Wait(uint64_t count, bool is_ahead) {
    const double waited = prefetcher_.figures().waited_s;
    const double begin = WallSeconds();
    for (uint64_t i = 0; i < count; ++i) {
      const worker::BatchId batch{0, {at_, at_ + kBatch}};
      at_ = batch.range.end;
      if (is_ahead) {
        prefetcher_.Foresee({0, {at_, at_ + kBatch}});
      }
      Require(prefetcher_.Take(batch).ok(), "a batch was fetched");
      const double end = WallSeconds() + step_s_;
      while (WallSeconds() < end) {
      }
    }
    step_ms_ = (WallSeconds() - begin) / static_cast<double>(count) * 1e3;
    return (prefetcher_.figures().waited_s - waited) / static_cast<double>(count) * 1e3;
  }

  double step_ms() const { return step_ms_; }

 private:
  const double step_s_;
  const double fetch_s_;
  uint64_t at_ = 0;
  double step_ms_ = 0;
  std::vector<std::byte> memory_[2];
  worker::Prefetcher prefetcher_{
      worker::BatchLayout({.shape = {1, 28, 28}}, worker::BatchForm::kValues, nullptr),
      [this](const worker::BatchId&, const worker::BatchMemory&) {
        std::promise<void>().get_future().wait_for(std::chrono::duration<double>(fetch_s_));
        return Status::Ok();
      },
      [this](int slot, size_t size_bytes) {
        memory_[slot].resize(size_bytes);
        return Result<std::byte*>(memory_[slot].data());
      }};
};

/// Two rows: fetched when wanted, and ahead.
template <typename S>
void AddRows(const std::string& name, S* steps, const BenchArguments& arguments, Table* table) {
  const uint64_t count = arguments.is_tiny ? 2 : 200;
  std::vector<double> whole[2];
  const auto run = [&](bool is_ahead) {
    const double wait = steps->Wait(count, is_ahead);
    whole[is_ahead ? 1 : 0].push_back(steps->step_ms());
    return wait;
  };
  const std::vector<Samples> waits =
      MeasureInTurn(arguments.runs, {[&] { return run(false); }, [&] { return run(true); }});
  for (int i = 0; i < 2; ++i) {
    whole[i].erase(whole[i].begin());  // the warm-up
    const Samples step{whole[i]};
    table->Add(
        {name,
         i == 0 ? "when wanted" : "ahead",
         Spread(waits[static_cast<size_t>(i)], 4),
         Spread(step, 3),
         Fixed(waits[static_cast<size_t>(i)].Median() / step.Median() * 100, 2) + " %"});
  }
}

void Main(const BenchArguments& arguments) {
  std::printf(
      "data: minibatches of %llu pictures, one compute thread, %u runs, ms, median (MAD)\n",
      static_cast<unsigned long long>(kBatch),
      arguments.runs);
  Table table({"model", "fetched", "waits for data", "whole step", "of the step"});
  for (const std::string model : {"mlp", "cnn"}) {
    Steps steps(model);
    AddRows(model, &steps, arguments, &table);
  }
  ThrottledSteps longer(0.008, 0.005);
  AddRows("steps of 8 ms, fetches of 5 ms", &longer, arguments, &table);
  ThrottledSteps shorter(0.003, 0.005);
  AddRows("steps of 3 ms, fetches of 5 ms", &shorter, arguments, &table);
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
