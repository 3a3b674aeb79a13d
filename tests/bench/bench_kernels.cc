// What each op takes on a device, beside the most that the device does: its best product of
// matrices for ops that multiply, the faster of two ways to copy memory for the others. The best
// product in bf16 has factors and result in bf16 in memory, where an op rounds its factors first.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/threads.h"
#include "kernels/cuda/gemm/best_product.h"
#include "tests/bench/harness.h"
#include "tests/bench/loss_bench.h"
#include "worker/device.h"

namespace ps::bench {
namespace {

using kernels::Backend;
using kernels::Memory;
using kernels::OpSpec;
using kernels::Stream;

/// An op at the size that a model asks for, of one batch.
struct Row {
  std::string name;
  OpSpec spec;
  int64_t n = 1;             // samples
  int64_t in_elements = 1;   // of a sample
  int64_t out_elements = 1;  // of a sample
  std::vector<int64_t> parameters;
  double products = 0;  // multiplications of a forward pass; 0: bound by memory

  bool is_product() const { return products > 0; }

  /// The same with products of bf16 factors.
  Row InBf16() const {
    Row row = *this;
    row.name += ", bf16";
    std::visit(
        [](auto& options) {
          if constexpr (requires { options.precision; }) {
            options.precision = kernels::Precision::kBf16;
          }
        },
        row.spec);
    return row;
  }
};

/// Something to be timed. `i` counts the calls, so that each may take other memory.
struct Work {
  double amount = 0;  // floating-point operations, or bytes, of a call
  std::function<void(size_t i)> call;
};

int64_t Square(int64_t side) {
  return side * side;
}

Row Conv(const std::string& name, int64_t n, kernels::Conv2dOptions options) {
  const int64_t out =
      kernels::WindowCount(options.in_height, options.kernel, options.stride, options.padding);
  const int64_t channels = options.in_channels / options.groups;
  const int64_t weights = options.out_channels * channels * Square(options.kernel);
  options.bias = false;
  return {
      name,
      options,
      n,
      options.in_channels * options.in_height * options.in_width,
      options.out_channels * Square(out),
      {weights},
      static_cast<double>(n * weights * Square(out))};
}

Row Grouped(const std::string& name, int64_t n, int64_t groups, kernels::Conv2dOptions options) {
  options.groups = groups;
  return Conv(name, n, options);
}

Row Linear(const std::string& name, int64_t n, int64_t in, int64_t out) {
  return {
      name,
      kernels::LinearOptions{in, out},
      n,
      in,
      out,
      {in * out, out},
      static_cast<double>(n * in * out)};
}

Row Attention(const std::string& name, int64_t n, kernels::AttentionOptions options) {
  const int64_t elements = options.length * options.width;
  const double pairs = static_cast<double>(n * elements * options.length);
  return {name, options, n, 3 * elements, elements, {}, options.causal ? pairs : 2 * pairs};
}

/// Sizes of a ResNet-20 at a minibatch of 128, a ResNet-50 at 64, beside it convolutions in groups
/// as MobileNet, ConvNeXt and ResNeXt have them, and a GPT of 124 million parameters at 8 texts of
/// 1,024 tokens; a few samples of each where `scale` is small.
std::vector<Row> Rows(bool is_tiny) {
  const int64_t small = is_tiny ? 1 : 128;
  const int64_t large = is_tiny ? 1 : 64;
  const int64_t texts = is_tiny ? 1 : 8;
  const int64_t length = is_tiny ? 32 : 1024;
  const int64_t width = is_tiny ? 64 : 768;
  const int64_t side = is_tiny ? 8 : 56;
  const int64_t tokens = texts * length;
  return {
      Conv("conv 3x3, 16 channels, 32x32", small, {16, 32, 32, 16, 3, 1, 1}),
      Conv("conv 3x3, 32 channels, 16x16", small, {32, 16, 16, 32, 3, 1, 1}),
      Conv("conv 3x3, 64 channels, 8x8", small, {64, 8, 8, 64, 3, 1, 1}),
      Conv("conv 3x3, 64 channels, 56x56", large, {64, side, side, 64, 3, 1, 1}),
      Conv("conv 1x1, 64 to 256, 56x56", large, {64, side, side, 256, 1, 1, 0}),
      Conv("conv 1x1, 1024 to 256, 14x14", large, {1024, side / 4, side / 4, 256, 1, 1, 0}),
      Conv("conv 3x3, 512 channels, 7x7", large, {512, 7, 7, 512, 3, 1, 1}),
      Conv("conv 3x3 by 2, 128 channels, 56x56", large, {128, side, side, 128, 3, 2, 1}),
      Conv("conv 7x7 by 2, 3 to 64, 224x224", large, {3, 4 * side, 4 * side, 64, 7, 2, 3}),
      Grouped("depthwise 3x3, 64 channels, 56x56", large, 64, {64, side, side, 64, 3, 1, 1}),
      Grouped("depthwise 7x7, 96 channels, 56x56", large, 96, {96, side, side, 96, 7, 1, 3}),
      Grouped(
          "depthwise 3x3 by 2, 128 channels, 56x56", large, 128, {128, side, side, 128, 3, 2, 1}),
      Grouped(
          "conv 3x3 in 32 groups, 128 channels, 56x56", large, 32, {128, side, side, 128, 3, 1, 1}),
      Linear("linear, width to 4 widths", tokens, width, 4 * width),
      Linear("linear, 4 widths to width", tokens, 4 * width, width),
      Attention("attention, causal", texts, {length, width, width / 64, true}),
      Attention("attention, whole", texts, {length, width, width / 64, false}),
      {"batch norm, 16 channels, 32x32",
       kernels::BatchNormOptions{16, 32, 32},
       small,
       16 * 1024,
       16 * 1024,
       {16, 16, 16, 16}},
      {"batch norm, 256 channels, 56x56",
       kernels::BatchNormOptions{256, side, side},
       large,
       256 * Square(side),
       256 * Square(side),
       {256, 256, 256, 256}},
      {"layer norm", kernels::LayerNormOptions{width}, tokens, width, width, {width, width}},
      {"relu", kernels::ReluOptions{16 * 1024}, small, 16 * 1024, 16 * 1024, {}},
      {"gelu", kernels::GeluOptions{4 * width}, tokens, 4 * width, 4 * width, {}},
      {"dropout", kernels::DropoutOptions{width}, tokens, width, width, {}},
      {"max pool 2x2, 64 channels, 56x56",
       kernels::PoolOptions{kernels::PoolKind::kMax, 64, side, side, 2, 2, 2, 0},
       large,
       64 * Square(side),
       64 * Square(side / 2),
       {}},
  };
}

/// Device memory for the calls of one row. Calls take turns among copies of it, so that no cache
/// has what the next one reads.
class Batches {
 public:
  Batches(Backend* backend, Stream* stream, const Row& row, bool is_tiny) {
    const int64_t elements = row.n * std::max(row.in_elements, row.out_elements);
    const int64_t bytes = 4 * elements * static_cast<int64_t>(sizeof(float));
    constexpr int64_t kCachesBytes = int64_t{256} << 20;
    const int64_t copies = is_tiny ? 1 : std::clamp<int64_t>(kCachesBytes / bytes, 1, 16);
    for (int64_t i = 0; i < copies; ++i) {
      Batch& batch = batches_.emplace_back();
      for (std::unique_ptr<Memory>* memory : {&batch.x, &batch.y, &batch.dy, &batch.dx}) {
        *memory = Allocate(backend, stream, elements, 1);
      }
    }
    step_ = Allocate(backend, stream, sizeof(uint64_t) / sizeof(float), 0);
    for (const int64_t count : row.parameters) {
      parameters_.push_back(Allocate(backend, stream, count, 0.01F));
      gradients_.push_back(Allocate(backend, stream, count, 0));
      parameter_spans_.emplace_back(parameters_.back()->floats(), static_cast<size_t>(count));
      gradient_spans_.emplace_back(gradients_.back()->floats(), static_cast<size_t>(count));
    }
  }

  kernels::ForwardArgs ForwardOf(size_t i, int64_t n) const {
    const Batch& batch = batches_[i % batches_.size()];
    const auto* const step = reinterpret_cast<const uint64_t*>(step_->data());
    return {
        .n = n,
        .x = batch.x->floats(),
        .y = batch.y->floats(),
        .params = parameter_spans_,
        .training = true,
        .step = step};
  }

  kernels::BackwardArgs BackwardOf(size_t i, int64_t n) const {
    const Batch& batch = batches_[i % batches_.size()];
    return {
        .n = n,
        .x = batch.x->floats(),
        .y = batch.y->floats(),
        .dy = batch.dy->floats(),
        .dx = batch.dx->floats(),
        .params = parameter_spans_,
        .grads = gradient_spans_};
  }

 private:
  struct Batch {
    std::unique_ptr<Memory> x, y, dy, dx;
  };

  static std::unique_ptr<Memory> Allocate(
      Backend* backend, Stream* stream, int64_t elements, float value) {
    auto memory = backend->AllocateDevice(static_cast<size_t>(elements) * sizeof(float));
    Require(memory.ok(), "the device has memory for a row");
    stream->Fill(value, (*memory)->floats(), elements);
    return std::move(memory).value();
  }

  std::vector<Batch> batches_;
  std::unique_ptr<Memory> step_;
  std::vector<std::unique_ptr<Memory>> parameters_;
  std::vector<std::unique_ptr<Memory>> gradients_;
  std::vector<std::span<const float>> parameter_spans_;
  std::vector<std::span<float>> gradient_spans_;
};

/// Times calls on one stream.
class Timer {
 public:
  Timer(Stream* stream, bool is_tiny) : stream_(stream), is_tiny_(is_tiny) {}

  /// Amounts a second, of as many calls as take a twentieth of a second.
  double RateOf(const Work& work) {
    size_t count = 1;
    double seconds = SecondsOf(work, count);
    while (!is_tiny_ && seconds < 0.05 && count < 4096) {
      count *= 2;
      seconds = SecondsOf(work, count);
    }
    return work.amount * static_cast<double>(count) / seconds;
  }

 private:
  double SecondsOf(const Work& work, size_t count) {
    Synchronize();
    const double begin = WallSeconds();
    for (size_t i = 0; i < count; ++i) {
      work.call(i);
    }
    Synchronize();
    return WallSeconds() - begin;
  }

  void Synchronize() {
    const Status status = stream_->Synchronize();
    Require(status.ok(), "the device works: " + std::string(status.message()));
  }

  Stream* const stream_;
  const bool is_tiny_;
};

/// A row's op with its memory, and the yardstick of its kind.
struct Bench {
  Bench(Backend* backend, Stream* stream, const Row& row, bool is_tiny)
      : batches(backend, stream, row, is_tiny) {
    auto made = stream->MakeOp(row.spec);
    Require(made.ok(), "the device has the op " + row.name);
    op = std::move(made).value();
    Require(op->Prepare(row.n, true).ok(), row.name + " has room");
    const double in = static_cast<double>(row.n * row.in_elements) * sizeof(float);
    const double out = static_cast<double>(row.n * row.out_elements) * sizeof(float);
    const bool is_product = row.is_product();
    // A backward pass has two products for one; attention computes its scores a second time.
    const double again = std::holds_alternative<kernels::AttentionOptions>(row.spec) ? 2.5 : 2;
    forward = {is_product ? 2 * row.products : in + out, [this, n = row.n](size_t i) {
                 op->Forward(batches.ForwardOf(i, n));
               }};
    backward = {is_product ? 2 * again * row.products : 2 * in + out, [this, n = row.n](size_t i) {
                  op->Backward(batches.BackwardOf(i, n));
                }};
  }

  Batches batches;
  std::unique_ptr<kernels::Op> op;
  Work forward;
  Work backward;
};

/// A copy counts what it reads and what it writes.
Row CopyRow(int64_t elements) {
  return {"copy", kernels::FlattenOptions{elements, 1, 1}, 1, elements, elements, {}};
}

void Main(const BenchArguments& arguments) {
  const auto choice = proto::ParseDevice(arguments.device);
  Require(choice.ok(), "--device " + std::string(choice.status().message()));
  auto device = worker::OpenDevice(*choice, WorkerId(0), worker::Products::kFastest);
  if (!device.ok()) {
    std::printf("SKIP: %s\n", std::string(device.status().message()).c_str());
    std::exit(77);
  }
  Backend* const backend = device->backends.front().get();
  kernels::SetComputeThreads(1);
  const std::unique_ptr<Stream> stream = backend->MakeStream().value();
  const bool is_tiny = arguments.is_tiny;
  const bool is_cpu = backend->is_host_memory();
  Timer timer(stream.get(), is_tiny);
  const int64_t edge = is_tiny ? 64 : is_cpu ? 1024 : 8192;
  const Row product = Linear("product", edge, edge, edge);
  Bench f32(backend, stream.get(), product, is_tiny);
  Bench bf16(backend, stream.get(), product.InBf16(), is_tiny);
  const int64_t copied = is_tiny ? 1024 : int64_t{1} << (is_cpu ? 24 : 27);
  Bench memory(backend, stream.get(), CopyRow(copied), is_tiny);
  const auto copy_by = [&](auto copy) {
    return Work{memory.forward.amount, [&memory, copy](size_t i) {
                  const kernels::ForwardArgs args = memory.batches.ForwardOf(i, 1);
                  copy(args.x, args.y);
                }};
  };
  const Work copies[] = {
      copy_by([&](const float* x, float* y) { stream->Copy(x, y, copied); }),
      copy_by([&](const float* x, float* y) { stream->CopyAcross(x, y, copied); })};
  const bool is_across = timer.RateOf(copies[1]) > timer.RateOf(copies[0]);
  const Work& copy = copies[is_across ? 1 : 0];
  std::unique_ptr<kernels::BestProduct> pure;
  if (!is_cpu) {
    if (auto made = kernels::MakeBestProduct(backend, stream.get(), edge); made.ok()) {
      pure = std::move(made).value();
      bf16.forward.call = [&](size_t) { pure->Run(); };
    }
  }
  std::printf(
      "kernels: %s%s, %u runs, median (MAD); %% of the best product of matrices (%lld x %lld%s), "
      "or "
      "of a copy (%s)\n",
      backend->Name().c_str(),
      is_cpu ? ", one thread" : "",
      arguments.runs,
      static_cast<long long>(edge),
      static_cast<long long>(edge),
      pure == nullptr ? "" : ", in bf16 without rounding",
      is_across ? "as between devices" : "of floats");
  Table table({"op", "unit", "forward", "of the best", "backward", "of the best", "best"});
  const auto add = [&](const std::string& name,
                       const char* unit,
                       const Work& forward,
                       const Work& backward,
                       const Work& best) {
    const std::vector<Samples> rates = MeasureInTurn(
        arguments.runs,
        {[&] { return timer.RateOf(forward) / 1e9; },
         [&] { return timer.RateOf(backward) / 1e9; },
         [&] { return timer.RateOf(best) / 1e9; }});
    table.Add(
        {name,
         unit,
         Spread(rates[0], 1),
         Fixed(PercentOf(rates[0], rates[2]).Median(), 0) + " %",
         Spread(rates[1], 1),
         Fixed(PercentOf(rates[1], rates[2]).Median(), 0) + " %",
         Fixed(rates[2].Median(), 1)});
  };
  const auto measure = [&](const Row& row, const Work& best) {
    if (arguments.Wants(row.name)) {
      const Bench bench(backend, stream.get(), row, is_tiny);
      add(row.name, row.is_product() ? "GFLOP/s" : "GB/s", bench.forward, bench.backward, best);
    }
  };
  for (const Row& row : Rows(is_tiny)) {
    measure(row, row.is_product() ? f32.forward : copy);
    if (row.is_product()) {
      measure(row.InBf16(), bf16.forward);
    }
  }
  // Forward the loss alone, backward with its gradient.
  const std::string loss_name = "cross-entropy of 50,257 classes";
  if (arguments.Wants(loss_name)) {
    LossBench loss(backend, stream.get(), is_tiny ? 2 : is_cpu ? 64 : 8192, is_tiny ? 600 : 50257);
    const Work forward{loss.size_bytes(), [&](size_t) { loss.Run(false); }};
    const Work backward{2 * loss.size_bytes(), [&](size_t) { loss.Run(true); }};
    add(loss_name, "GB/s", forward, backward, copy);
  }
  if (!is_cpu) {  // the head of a GPT, with rows of an odd length; a CPU would take minutes
    const Row head = Linear("linear, width to 50,257 tokens", 8192, 768, 50257);
    measure(head, f32.forward);
    measure(head.InBf16(), bf16.forward);
  }
  table.Print();
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  ps::bench::BenchExtras extras;
  extras.has_rows = true;
  extras.has_device = true;
  ps::bench::Main(ps::bench::ReadBenchArguments(argc, argv, extras));
  return 0;
}
