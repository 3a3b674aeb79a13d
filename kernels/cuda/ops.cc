#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <variant>

#include "kernels/cuda/fused_ops.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/sequence_ops.h"
#include "kernels/cuda/stream.h"
#include "ps/base/check.h"
#include "ps/base/random.h"

namespace ps::kernels {
namespace {

class CudaPool final : public Op {
 public:
  CudaPool(const PoolOptions& options, CudaStream* stream) : options_(options), stream_(stream) {}

  Status Prepare(int64_t n, bool training) override {
    const PoolShape shape = Shape(n);
    const auto size_bytes = static_cast<size_t>(
        PoolWinnerBytes(options_) * n * shape.out_height * shape.out_width * options_.channels);
    const bool has_winners = training && options_.kind == PoolKind::kMax;
    if (has_winners && (winners_ == nullptr || winners_->size() < size_bytes)) {
      PS_ASSIGN(winners_, AllocateCudaMemory(stream_->device(), MemoryKind::kDevice, size_bytes));
    }
    return Status::Ok();
  }

  void Forward(const ForwardArgs& args) override {
    stream_->Note(PoolForward(
        stream_->Enter(), Shape(args.n), args.x, args.y, args.training ? Winners() : nullptr));
  }

  void Backward(const BackwardArgs& args) override {
    PS_CHECK(args.dx != nullptr || args.n == 0)
        << "a pool has nothing but its input's gradient to compute";
    stream_->Note(PoolBackward(stream_->Enter(), Shape(args.n), args.dy, Winners(), args.dx));
  }

  OpTraits traits() const override { return {}; }

 private:
  PoolShape Shape(int64_t n) const {
    const PoolOptions& o = options_;
    return {
        n,
        o,
        WindowCount(o.in_height, o.kernel_height, o.stride, o.padding),
        WindowCount(o.in_width, o.kernel_width, o.stride, o.padding)};
  }

  std::byte* Winners() const { return winners_ == nullptr ? nullptr : winners_->data(); }

  const PoolOptions options_;
  CudaStream* const stream_;
  std::unique_ptr<Memory> winners_;  // of the last training batch, for a maximum
};

/// relu's backward reads y, which lets it run in place; gelu's reads x.
class CudaActivation final : public Op {
 public:
  enum class Kind : uint8_t { kRelu, kGelu };

  CudaActivation(Kind kind, int64_t elements, CudaStream* stream)
      : kind_(kind), elements_(elements), stream_(stream) {}

  Status Prepare(int64_t /*n*/, bool /*training*/) override { return Status::Ok(); }

  void Forward(const ForwardArgs& args) override {
    const auto run = kind_ == Kind::kRelu ? &ReluForward : &GeluForward;
    stream_->Note(run(stream_->Enter(), args.x, args.y, args.n * elements_));
  }

  void Backward(const BackwardArgs& args) override {
    PS_CHECK(args.dx != nullptr || args.n == 0)
        << "an activation has only its input's gradient to compute";
    const auto run = kind_ == Kind::kRelu ? &ReluBackward : &GeluBackward;
    const float* data = kind_ == Kind::kRelu ? args.y : args.x;
    stream_->Note(run(stream_->Enter(), data, args.dy, args.dx, args.n * elements_));
  }

  OpTraits traits() const override {
    const bool is_relu = kind_ == Kind::kRelu;
    return {.runs_in_place = is_relu, .backward_reads_output = is_relu};
  }

 private:
  const Kind kind_;
  const int64_t elements_;
  CudaStream* const stream_;
};

/// The mask is worked out again in the backward pass, which costs less than to read it.
class CudaDropout final : public Op {
 public:
  CudaDropout(const DropoutOptions& options, CudaStream* stream)
      : options_(options), stream_(stream) {
    mask_.key = Mix64(Mix64(options.seed) ^ options.layer);
    mask_.threshold = static_cast<uint64_t>(std::ldexp(static_cast<double>(options.rate), 32));
    mask_.scale = 1.0F / (1.0F - options.rate);
  }

  Status Prepare(int64_t /*n*/, bool /*training*/) override { return Status::Ok(); }

  void Forward(const ForwardArgs& args) override {
    const int64_t size = args.n * options_.elements;
    if (args.training) {
      mask_.step = args.step;
      stream_->Note(ApplyDropout(stream_->Enter(), mask_, args.x, args.y, size));
    } else if (args.x != args.y) {
      stream_->Copy(args.x, args.y, size);
    }
  }

  void Backward(const BackwardArgs& args) override {
    PS_CHECK(args.dx != nullptr || args.n == 0)
        << "dropout has only its input's gradient to compute";
    const int64_t size = args.n * options_.elements;
    stream_->Note(ApplyDropout(stream_->Enter(), mask_, args.dy, args.dx, size));
  }

  OpTraits traits() const override { return {.runs_in_place = true}; }

 private:
  const DropoutOptions options_;
  CudaStream* const stream_;
  DropoutMask mask_;
};

/// y[n, c, r] = x[n, r, c].
class CudaTranspose final : public Op {
 public:
  CudaTranspose(int64_t rows, int64_t columns, CudaStream* stream)
      : rows_(rows), columns_(columns), stream_(stream) {}

  Status Prepare(int64_t /*n*/, bool /*training*/) override { return Status::Ok(); }

  void Forward(const ForwardArgs& args) override {
    stream_->Note(TransposeSamples(stream_->Enter(), args.x, args.y, args.n, rows_, columns_));
  }

  void Backward(const BackwardArgs& args) override {
    PS_CHECK(args.dx != nullptr || args.n == 0)
        << "a layout change has only its input's gradient to compute";
    stream_->Note(TransposeSamples(stream_->Enter(), args.dy, args.dx, args.n, columns_, rows_));
  }

  OpTraits traits() const override { return {}; }

 private:
  const int64_t rows_;
  const int64_t columns_;
  CudaStream* const stream_;
};

using MadeOp = Result<std::unique_ptr<Op>>;

/// Which class an op's options belong to.
struct OpMaker {
  MadeOp operator()(const LinearOptions& o) const { return MakeCudaLinear(o, stream); }

  MadeOp operator()(const Conv2dOptions& o) const { return MakeCudaConv2d(o, stream); }

  MadeOp operator()(const BatchNormOptions& o) const { return MakeCudaBatchNorm(o, stream); }

  MadeOp operator()(const PoolOptions& o) const { return Make<CudaPool>(o, stream); }

  MadeOp operator()(const ReluOptions& o) const {
    return Make<CudaActivation>(CudaActivation::Kind::kRelu, o.elements, stream);
  }

  MadeOp operator()(const GeluOptions& o) const {
    return Make<CudaActivation>(CudaActivation::Kind::kGelu, o.elements, stream);
  }

  MadeOp operator()(const DropoutOptions& o) const { return Make<CudaDropout>(o, stream); }

  MadeOp operator()(const FlattenOptions& o) const {
    return Make<CudaTranspose>(o.height * o.width, o.channels, stream);
  }

  MadeOp operator()(const ChannelsLastOptions& o) const {
    return Make<CudaTranspose>(o.channels, o.height * o.width, stream);
  }

  MadeOp operator()(const EmbeddingOptions& o) const { return MakeCudaEmbedding(o, stream); }

  MadeOp operator()(const LayerNormOptions& o) const { return MakeCudaLayerNorm(o, stream); }

  MadeOp operator()(const AttentionOptions& o) const { return MakeCudaAttention(o, stream); }

  MadeOp operator()(const PortableOptions auto& o) const { return MakePortableCudaOp(o, stream); }

  template <typename T, typename... Args>
  static MadeOp Make(const Args&... args) {
    return std::unique_ptr<Op>(std::make_unique<T>(args...));
  }

  CudaStream* stream;
};

}  // namespace

Result<std::unique_ptr<Op>> MakeCudaOp(const OpSpec& spec, CudaStream* stream) {
  return std::visit(OpMaker{stream}, spec);
}

}  // namespace ps::kernels
