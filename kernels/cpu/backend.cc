#include "kernels/cpu/backend.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "kernels/cpu/finite.h"
#include "kernels/cpu/loss.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/optimizer_combine.h"
#include "kernels/cpu/pictures.h"
#include "kernels/cpu/portable_device.h"
#include "kernels/cpu/vector.h"
#include "kernels/cpu/workspace.h"
#include "ps/base/buffer.h"
#include "ps/base/check.h"
#include "ps/base/text.h"

namespace ps::kernels {
namespace {

class CpuMemory final : public Memory {
 public:
  explicit CpuMemory(Buffer buffer)
      : Memory(buffer.data(), buffer.size()), buffer_(std::move(buffer)) {}

 private:
  Buffer buffer_;
};

/// Whatever was put into a stream before Record is done.
class CpuEvent final : public Event {
 public:
  bool IsReached() const override { return true; }

  Status Wait() const override { return Status::Ok(); }
};

/// Which factory an op's options belong to.
struct OpMaker {
  std::unique_ptr<Op> operator()(const LinearOptions& o) const { return MakeLinear(o, workspace); }

  std::unique_ptr<Op> operator()(const Conv2dOptions& o) const { return MakeConv2d(o, workspace); }

  std::unique_ptr<Op> operator()(const BatchNormOptions& o) const {
    return MakeBatchNorm(o, workspace);
  }

  std::unique_ptr<Op> operator()(const PoolOptions& o) const { return MakePool(o, workspace); }

  std::unique_ptr<Op> operator()(const ReluOptions& o) const { return MakeRelu(o, workspace); }

  std::unique_ptr<Op> operator()(const GeluOptions& o) const { return MakeGelu(o, workspace); }

  std::unique_ptr<Op> operator()(const DropoutOptions& o) const { return MakeDropout(o); }

  std::unique_ptr<Op> operator()(const FlattenOptions& o) const {
    return MakeFlatten(o, workspace);
  }

  std::unique_ptr<Op> operator()(const ChannelsLastOptions& o) const {
    return MakeChannelsLast(o, workspace);
  }

  std::unique_ptr<Op> operator()(const EmbeddingOptions& o) const { return MakeEmbedding(o); }

  std::unique_ptr<Op> operator()(const LayerNormOptions& o) const {
    return MakeLayerNorm(o, workspace);
  }

  std::unique_ptr<Op> operator()(const AttentionOptions& o) const {
    return MakeAttention(o, workspace);
  }

  template <PortableOptions Options>
  std::unique_ptr<Op> operator()(const Options& o) const {
    using PortableOp = typename Options::template On<CpuDevice>;
    return std::make_unique<PortableOp>(o, CpuDevice(workspace));
  }

  Workspace* workspace;
};

/// An op whose batches may be empty, which oneDNN's may not.
class OrNothing final : public Op {
 public:
  explicit OrNothing(std::unique_ptr<Op> op) : op_(std::move(op)) {}

  Status Prepare(int64_t n, bool training) override {
    return n == 0 ? Status::Ok() : op_->Prepare(n, training);
  }

  void Forward(const ForwardArgs& args) override {
    if (args.n > 0) {
      op_->Forward(args);
    }
  }

  void Backward(const BackwardArgs& args) override {
    if (args.n > 0) {
      op_->Backward(args);
      return;
    }
    for (const std::span<float> gradient : args.grads) {
      std::fill(gradient.begin(), gradient.end(), 0.0F);
    }
  }

  OpTraits traits() const override { return op_->traits(); }

 private:
  const std::unique_ptr<Op> op_;
};

class CpuStream final : public Stream {
 public:
  Result<std::unique_ptr<Op>> MakeOp(const OpSpec& spec) override {
    const bool does_more = std::visit(
        [](const auto& options) {
          bool does = false;
          if constexpr (requires { options.activation; }) {
            does = options.activation != Activation::kNone;
          }
          if constexpr (requires { options.adds_side; }) {
            does = does || options.adds_side;
          }
          return does;
        },
        spec);
    if (does_more) {
      return Status::Unsupported("the CPU's ops have no activation or addition of their own");
    }
    return std::unique_ptr<Op>(std::make_unique<OrNothing>(std::visit(OpMaker{&workspace_}, spec)));
  }

  void Upload(const void* host, void* device, size_t size_bytes) override {
    Move(host, device, size_bytes);
  }

  void Download(const void* device, void* host, size_t size_bytes) override {
    Move(device, host, size_bytes);
  }

  void Copy(const float* x, float* y, int64_t n) override { std::copy_n(x, n, y); }

  void CopyAcross(const float* x, float* y, int64_t n) override { Copy(x, y, n); }

  void Fill(float value, float* y, int64_t n) override { std::fill_n(y, n, value); }

  void Add(const float* a, const float* b, float* y, int64_t n) override {
    kernels::Add(a, b, y, n);
  }

  void Subtract(const float* a, const float* b, float* y, int64_t n) override {
    std::transform(a, a + n, b, y, std::minus());
  }

  void Scale(float factor, float* x, int64_t n) override {
    kernels::Scale({x, static_cast<size_t>(n)}, factor);
  }

  void ScaleBy(const float* factor, float* x, int64_t n) override {
    if (*factor != 1) {
      Scale(*factor, x, n);
    }
  }

  void ClipFactor(const double* squares, int64_t count, float norm_max, float* factor) override {
    const double norm = std::sqrt(std::accumulate(squares, squares + count, 0.0));
    const auto largest = static_cast<double>(norm_max);
    *factor = std::isfinite(norm) && norm > largest ? static_cast<float>(largest / norm) : 1.0F;
  }

  void SquaredNorm(const float* x, int64_t n, double* sum) override {
    *sum = kernels::SquaredNorm({x, static_cast<size_t>(n)});
  }

  void PackBf16(const float* x, uint16_t* y, int64_t n) override { kernels::PackBf16(x, y, n); }

  void Encode(const EncodeArgs& args) override {
    const auto n = static_cast<size_t>(args.n);
    const size_t kept = args.residual == nullptr ? 0 : n;
    codec::Encode(
        args.encoding,
        {args.values, n},
        {args.residual, kept},
        {args.out, args.encoding.SizeOf(n)});
  }

  void ComputeLoss(const LossArgs& args) override { kernels::ComputeLoss(args); }

  void MakePictures(const PictureArgs& args) override { kernels::MakePictures(args); }

  void CheckFinite(ConstSpans tensors, uint32_t* not_finite) override {
    for (size_t i = 0; i < tensors.size(); ++i) {
      not_finite[i] = AllFinite(tensors[i]) ? 0 : 1;
    }
  }

  void ApplyUpdates(
      const OptimizerRule& rule,
      std::span<const TensorUpdate> updates,
      uint32_t* left_out) override {
    for (const TensorUpdate& update : updates) {
      if (!ApplyUpdate(rule, update.step, update.buffers) && left_out != nullptr) {
        *left_out = 1;
      }
    }
  }

  void MoveAverages(std::span<const AverageMove> moves) override {
    for (const AverageMove& move : moves) {
      MoveTowards(move.x, move.rate, move.w, move.n);
    }
  }

  bool BeginRecording() override { return false; }

  std::unique_ptr<Recording> EndRecording() override { return std::make_unique<Recording>(); }

  bool CanReplay(const Recording& /*recording*/) const override { return false; }

  void Replay(const Recording& /*recording*/) override {
    PS_CHECK(false) << "a stream that keeps no work was asked for it";
  }

  void Record(Event* /*event*/) override {}

  void WaitFor(const Event& /*event*/) override {}

  Status Synchronize() override { return Status::Ok(); }

  Status Failure() const override { return Status::Ok(); }

 private:
  static void Move(const void* from, void* to, size_t size_bytes) {
    if (size_bytes > 0 && to != from) {
      std::memmove(to, from, size_bytes);
    }
  }

  Workspace workspace_;  // of all ops of this stream: one runs at a time
};

size_t MachineMemoryBytes() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

class CpuBackend final : public Backend {
 public:
  std::string Name() const override { return "cpu"; }

  bool is_host_memory() const override { return true; }

  void Reach(const Backend& /*other*/) override {}

  Result<std::unique_ptr<Memory>> AllocateDevice(size_t size_bytes) override {
    // More than there is would be granted all the same, and the process killed when it is used.
    const size_t there_is = MachineMemoryBytes();
    if (size_bytes > there_is) {
      return Status::InvalidArgument(fmt::format(
          "{} asked of the CPU's memory, which has {}",
          FormatBytes(size_bytes),
          FormatBytes(there_is)));
    }
    return std::unique_ptr<Memory>(std::make_unique<CpuMemory>(Buffer(size_bytes)));
  }

  Result<std::unique_ptr<Memory>> AllocatePinned(size_t size_bytes) override {
    return AllocateDevice(size_bytes);
  }

  Result<std::unique_ptr<Stream>> MakeStream() override {
    return std::unique_ptr<Stream>(std::make_unique<CpuStream>());
  }

  Result<std::unique_ptr<Event>> MakeEvent() override {
    return std::unique_ptr<Event>(std::make_unique<CpuEvent>());
  }
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() {
  return std::make_unique<CpuBackend>();
}

}  // namespace ps::kernels
