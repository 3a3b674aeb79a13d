// How close the optimizers come to memory bandwidth: GB/s of counted traffic (reads and writes of
// parameters, gradient and slots), against a STREAM triad a = b + s * c in the same run. Parameters
// are many chunks of 256 KiB, together far larger than the last-level cache, visited in order as a
// shard's pushes do.

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cpu/finite.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/optimizer_slots.h"
#include "ps/base/buffer.h"
#include "tests/bench/harness.h"

namespace ps::bench {
namespace {

constexpr int64_t kChunkElements = (256 << 10) / sizeof(float);

struct Case {
  std::string name;
  kernels::OptimizerRule rule;
  bool checks_finite = false;  // as a shard does first
};

/// Parameters, gradient and two slots; each buffer a whole number of chunks.
struct Memory {
  explicit Memory(int64_t elements) {
    for (auto& buffer : buffers) {
      buffer = Buffer(static_cast<size_t>(elements) * sizeof(float));
      for (float& value : buffer.floats()) {
        value = 0.5F;
      }
    }
  }

  float* At(size_t buffer, int64_t element) { return buffers[buffer].floats().data() + element; }

  Buffer buffers[4];
};

double Apply(const Case& c, Memory* memory, int64_t elements) {
  const double begin = WallSeconds();
  for (int64_t at = 0; at < elements; at += kChunkElements) {
    const kernels::OptimizerBuffers buffers{
        memory->At(0, at),
        memory->At(1, at),
        {memory->At(2, at), memory->At(3, at)},
        kChunkElements};
    if (c.checks_finite && !kernels::AllFinite({memory->At(0, at), kChunkElements})) {
      return 0;
    }
    kernels::ApplyUpdate(c.rule, {1e-6F, 0, 3}, buffers);
  }
  const double seconds = WallSeconds() - begin;
  const int bytes_per_element = 12 + 8 * kernels::OptimizerSlotCount(c.rule);
  return static_cast<double>(elements) * bytes_per_element / seconds * 1e-9;
}

double Triad(Memory* memory, int64_t elements) {
  float* const a = memory->At(1, 0);
  const float* const b = memory->At(2, 0);
  const float* const c = memory->At(3, 0);
  const double begin = WallSeconds();
#ifdef __clang__  // g++ does so at -O3
#pragma clang loop vectorize(enable) interleave(enable)
#endif
  for (int64_t i = 0; i < elements; ++i) {
    a[i] = b[i] + 1e-6F * c[i];
  }
  const double seconds = WallSeconds() - begin;
  return static_cast<double>(elements) * 12 / seconds * 1e-9;
}

void Main(const BenchArguments& arguments) {
  const int64_t elements = kChunkElements * (arguments.is_tiny ? 2 : 512);
  Memory memory(elements);
  using kernels::OptimizerKind;
  const std::vector<Case> cases = {
      {"sgd", {}, false},
      {"sgd, checked for NaN", {}, true},
      {"sgd momentum, checked", {.momentum = 0.9F}, true},
      {"sgd nesterov, checked", {.momentum = 0.9F, .nesterov = true}, true},
      {"adam, checked", {.kind = OptimizerKind::kAdam}, true},
      {"adamw, checked", {.kind = OptimizerKind::kAdamw}, true},
      {"adagrad, checked", {.kind = OptimizerKind::kAdagrad}, true},
  };
  std::vector<std::function<double()>> candidates = {[&] { return Triad(&memory, elements); }};
  for (const Case& c : cases) {
    candidates.emplace_back([&] { return Apply(c, &memory, elements); });
  }
  const std::vector<Samples> results = MeasureInTurn(arguments.runs, candidates);
  std::printf(
      "apply: one thread, %lld MiB of parameters in chunks of 256 KiB, %u runs, median (MAD)\n",
      static_cast<long long>(elements * 4 >> 20),
      arguments.runs);
  Table table({"what", "GB/s", "of triad"});
  table.Add({"triad", Spread(results[0], 1), "100 %"});
  for (size_t i = 0; i < cases.size(); ++i) {
    const double share = results[i + 1].Median() / results[0].Median() * 100;
    table.Add({cases[i].name, Spread(results[i + 1], 1), Fixed(share, 0) + " %"});
  }
  table.Print();
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  ps::bench::Main(ps::bench::ReadBenchArguments(argc, argv));
  return 0;
}
