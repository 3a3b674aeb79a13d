// Training of the Fashion-MNIST CNN by one worker through the parameter server (psctl, one server
// process, loopback), against the same arithmetic in a plain loop with a local optimizer. The plain
// loop is what oneDNN alone gives on this machine: no messages, no second process.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/threads.h"
#include "ps/base/crc32c.h"
#include "ps/base/tensor_spec.h"
#include "ps/proto/chunks.h"
#include "tests/bench/harness.h"
#include "worker/data/dataset.h"
#include "worker/model/model.h"
#include "worker/trainer.h"

namespace ps::bench {
namespace {

constexpr uint32_t kMinibatch = 64;

proto::JobConfig MakeConfig(uint64_t samples) {
  proto::JobConfig config;
  config.name = "bench";
  config.model.name = "cnn";
  config.data.directory = PS_FASHION_MNIST;
  config.data.train_samples = samples;
  config.train.minibatch = kMinibatch;
  return config;
}

/// Samples per second of a plain loop over one epoch.
double PlainLoop(uint64_t samples) {
  const proto::JobConfig config = MakeConfig(samples);
  const auto dataset = worker::Dataset::Inspect(config.data).value();
  const auto model = worker::MakeModel(config.model, dataset.shape, dataset.classes).value();
  const auto trainer = worker::Trainer::Make(config, {kernels::MakeCpuBackend()}).value();
  kernels::SetComputeThreads(1);
  const proto::TensorLayout layout(trainer->TensorElements());
  const int64_t elements = layout.element_count();
  Buffer parameters(static_cast<size_t>(elements) * sizeof(float));
  Buffer gradient(parameters.size());
  Buffer momentum(parameters.size());
  std::fill(gradient.floats().begin(), gradient.floats().end(), 0.0F);
  std::fill(momentum.floats().begin(), momentum.floats().end(), 0.0F);
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    InitializeTensor(
        model.tensors[i],
        static_cast<uint32_t>(i),
        1,
        0,
        parameters.floats().data() + layout.OffsetOf(i),
        model.tensors[i].element_count());
  }
  client::ComputeTask task;
  const auto step = [&](uint64_t begin, uint64_t end) {
    task.begin = begin;
    task.end = end;
    const worker::TaskTensors tensors{parameters.floats(), gradient.floats()};
    PS_CHECK(trainer->Step(task, tensors, {}).ok()) << "a plain step failed";
    kernels::ApplyUpdate(
        {.momentum = 0.9F},
        {0.02F, 1e-4F, 1},
        {gradient.floats().data(),
         parameters.floats().data(),
         {momentum.floats().data(), nullptr},
         elements});
  };
  step(0, std::min<uint64_t>(kMinibatch, samples));  // makes the primitives
  const double begin = WallSeconds();
  for (uint64_t at = 0; at < samples; at += kMinibatch) {
    step(at, std::min<uint64_t>(at + kMinibatch, samples));
  }
  return static_cast<double>(samples) / (WallSeconds() - begin);
}

/// The number behind `"key":` after position `from` of a JSON text.
double NumberAfter(const std::string& json, const std::string& key, size_t from) {
  const size_t at = json.find("\"" + key + "\":", from);
  PS_CHECK(at != std::string::npos) << "no " << key << " in the summary: " << json;
  return std::strtod(json.c_str() + at + key.size() + 3, nullptr);
}

struct WorkerTimes {
  double samples_per_s = 0;  // of compute and wait
  double outside = 0;        // part of the time that was not arithmetic
};

WorkerTimes ThroughServer(uint64_t samples, const std::string& mode) {
  const std::string directory =
      (std::filesystem::temp_directory_path() / "spotps-bench-train").string();
  const std::string command =
      std::string(PS_PSCTL) + " train " + PS_CONFIG + " --json --set faults=[]" +
      " --set train.epochs=1 --set train.mode=" + mode +
      " --set servers.count=1 --set 'workers=[{\"count\":1,\"minibatch\":64}]'" +
      " --set data.train_samples=" + std::to_string(samples) +
      " --set data.test_samples=100 --set data.directory=" + PS_FASHION_MNIST +
      " --set run.directory=" + directory + " 2>/dev/null";
  FILE* const pipe = ::popen(command.c_str(), "r");
  PS_CHECK(pipe != nullptr) << command;
  std::string json;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), pipe)) {
    json.append(buffer, n);
  }
  PS_CHECK(::pclose(pipe) == 0) << "failed: " << command;
  const size_t workers = json.find("\"workers\"");
  const double compute_s = NumberAfter(json, "compute_s", workers);
  const double wait_s = NumberAfter(json, "wait_s", workers);
  const double counted = NumberAfter(json, "samples_counted", workers);
  return {counted / (compute_s + wait_s), wait_s / (compute_s + wait_s)};
}

/// What of loading the dataset is for its checksums, which a join compares: in CPU time.
void PrintLoading(const BenchArguments& arguments) {
  const proto::DataConfig config = MakeConfig(0).data;
  const worker::DatasetInfo info = worker::Dataset::Inspect(config).value();
  const auto bytes =
      static_cast<size_t>(info.shape.element_count() + 1);  // of a sample with its label
  const std::vector<std::byte> all((info.train_count + info.test_count) * bytes);
  const std::vector<Samples> results = MeasureInTurn(
      arguments.runs,
      {[&] {
         const double begin = CpuSeconds();
         static_cast<void>(worker::Dataset::Load(config).value());
         return 1e3 * (CpuSeconds() - begin);
       },
       [&] {
         const double begin = CpuSeconds();
         static_cast<void>(Crc32c(all));
         return 1e3 * (CpuSeconds() - begin);
       }});
  std::printf(
      "loading all of it takes %s ms of CPU time, of which the checksums take %s, %s %%\n",
      Spread(results[0], 0).c_str(),
      Spread(results[1], 1).c_str(),
      Spread(PercentOf(results[1], results[0]), 1).c_str());
}

void Main(const BenchArguments& arguments) {
  const uint64_t samples = arguments.is_tiny ? 256 : 30000;
  std::vector<double> outside[2];
  const std::vector<std::string> modes = {"async", "bsp"};
  std::vector<std::function<double()>> candidates = {[&] { return PlainLoop(samples); }};
  for (size_t i = 0; i < modes.size(); ++i) {
    candidates.emplace_back([&, i] {
      const WorkerTimes times = ThroughServer(samples, modes[i]);
      outside[i].push_back(times.outside);
      return times.samples_per_s;
    });
  }
  const std::vector<Samples> results = MeasureInTurn(arguments.runs, candidates);
  std::printf(
      "train: CNN on Fashion-MNIST, %llu samples, one worker with one thread, %u runs, median "
      "(MAD)\n",
      static_cast<unsigned long long>(samples),
      arguments.runs);
  Table table({"what", "samples/s", "of plain", "step outside arithmetic"});
  table.Add({"plain loop on oneDNN", Spread(results[0], 0), "100 %", "-"});
  for (size_t i = 0; i < modes.size(); ++i) {
    outside[i].erase(outside[i].begin());  // the warm-up
    table.Add(
        {"parameter server, " + modes[i],
         Spread(results[i + 1], 0),
         Fixed(results[i + 1].Median() / results[0].Median() * 100, 0) + " %",
         Fixed(Samples{outside[i]}.Median() * 100, 1) + " %"});
  }
  table.Print();
  PrintLoading(arguments);
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
