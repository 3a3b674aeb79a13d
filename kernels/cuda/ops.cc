#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <variant>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/sequence_ops.h"
#include "kernels/cuda/stream.h"
#include "ps/base/check.h"
#include "ps/base/random.h"

namespace ps::kernels {
namespace {

/// c = a b by cuBLASLt, or by the folder's own kernel.
Status PrepareGemm(CudaStream* stream, const GemmShape& shape) {
  return stream->gemm() == nullptr ? Status::Ok() : stream->gemm()->Prepare(shape);
}

void RunGemm(
    CudaStream* stream,
    const GemmShape& shape,
    const float* a,
    const float* b,
    const float* bias,
    float* c) {
  cudaStream_t handle = stream->Enter();
  stream->Note(
      stream->gemm() == nullptr ? TiledGemm(handle, shape, a, b, bias, c)
                                : stream->gemm()->Run(handle, shape, a, b, bias, c));
}

/// What a backward pass puts in front of the scratch of its kernels: the gradient of what the op
/// has before its activation, `size` values.
int64_t ActivationScratch(Activation activation, int64_t size) {
  return activation == Activation::kNone ? 0 : size;
}

const float* GradientBeforeActivation(
    CudaStream* stream, Activation activation, const BackwardArgs& args, int64_t size) {
  if (activation == Activation::kNone) {
    return args.dy;
  }
  stream->Note(ReluBackward(stream->Enter(), args.y, args.dy, stream->scratch(), size));
  return stream->scratch();
}

class CudaLinear final : public Op {
 public:
  CudaLinear(const LinearOptions& options, CudaStream* stream)
      : options_(options), stream_(stream) {}

  Status Prepare(int64_t n, bool training) override {
    PS_TRY(PrepareGemm(stream_, ForwardShape(n)));
    if (!training) {
      return Status::Ok();
    }
    PS_TRY(PrepareGemm(stream_, WeightShape(n)));
    if (options_.input_gradient) {
      PS_TRY(PrepareGemm(stream_, InputShape(n)));
    }
    return stream_->ReserveScratch(OwnScratch(n) + ColumnSumScratch(n, options_.out_features));
  }

  void Forward(const ForwardArgs& args) override {
    const float* bias = options_.bias ? args.params[1].data() : nullptr;
    RunGemm(stream_, ForwardShape(args.n), args.x, args.params[0].data(), bias, args.y);
  }

  void Backward(const BackwardArgs& args) override {
    const float* dy = GradientBeforeActivation(
        stream_, options_.activation, args, args.n * options_.out_features);
    RunGemm(stream_, WeightShape(args.n), dy, args.x, nullptr, args.grads[0].data());
    if (options_.bias) {
      stream_->Note(ColumnSum(
          stream_->Enter(),
          dy,
          args.n,
          options_.out_features,
          stream_->scratch() + OwnScratch(args.n),
          args.grads[1].data()));
    }
    if (args.dx != nullptr) {
      RunGemm(stream_, InputShape(args.n), dy, args.params[0].data(), nullptr, args.dx);
    }
  }

  OpTraits traits() const override {
    return {.backward_reads_output = options_.activation != Activation::kNone};
  }

 private:
  int64_t OwnScratch(int64_t n) const {
    return ActivationScratch(options_.activation, n * options_.out_features);
  }

  GemmShape ForwardShape(int64_t n) const {
    return {
        .m = n,
        .n = options_.out_features,
        .k = options_.in_features,
        .transpose_b = true,
        .bias = options_.bias,
        .precision = options_.precision,
        .activation = options_.activation};
  }

  GemmShape InputShape(int64_t n) const {
    return {
        .m = n,
        .n = options_.in_features,
        .k = options_.out_features,
        .precision = options_.precision};
  }

  GemmShape WeightShape(int64_t n) const {
    return {
        .m = options_.out_features,
        .n = options_.in_features,
        .k = n,
        .transpose_a = true,
        .precision = options_.precision};
  }

  const LinearOptions options_;
  CudaStream* const stream_;
};

class CudaConv2d final : public Op {
 public:
  CudaConv2d(const Conv2dOptions& options, CudaStream* stream)
      : options_(options), stream_(stream) {}

  Status Prepare(int64_t n, bool training) override {
    if (!training) {
      return Status::Ok();
    }
    const ConvShape shape = Shape(n);
    const int64_t bias_scratch = ColumnSumScratch(OutputPixels(shape), options_.out_channels);
    return stream_->ReserveScratch(
        OwnScratch(shape) + std::max(ConvWeightScratch(shape), bias_scratch));
  }

  void Forward(const ForwardArgs& args) override {
    stream_->Note(ConvForward(
        stream_->Enter(),
        Shape(args.n),
        args.x,
        args.params[0].data(),
        options_.bias ? args.params[1].data() : nullptr,
        args.y));
  }

  void Backward(const BackwardArgs& args) override {
    const ConvShape shape = Shape(args.n);
    cudaStream_t stream = stream_->Enter();
    const float* dy = GradientBeforeActivation(
        stream_, options_.activation, args, OutputPixels(shape) * options_.out_channels);
    float* scratch = stream_->scratch() + OwnScratch(shape);
    stream_->Note(ConvWeightGradient(stream, shape, args.x, dy, scratch, args.grads[0].data()));
    if (options_.bias) {
      stream_->Note(ColumnSum(
          stream, dy, OutputPixels(shape), options_.out_channels, scratch, args.grads[1].data()));
    }
    if (args.dx != nullptr) {
      stream_->Note(ConvInputGradient(stream, shape, dy, args.params[0].data(), args.dx));
    }
  }

  OpTraits traits() const override {
    return {.backward_reads_output = options_.activation != Activation::kNone};
  }

 private:
  int64_t OwnScratch(const ConvShape& shape) const {
    return ActivationScratch(options_.activation, OutputPixels(shape) * options_.out_channels);
  }

  ConvShape Shape(int64_t n) const {
    const Conv2dOptions& o = options_;
    return {
        n,
        o,
        WindowCount(o.in_height, o.kernel, o.stride, o.padding),
        WindowCount(o.in_width, o.kernel, o.stride, o.padding)};
  }

  static int64_t OutputPixels(const ConvShape& shape) {
    return shape.n * shape.out_height * shape.out_width;
  }

  const Conv2dOptions options_;
  CudaStream* const stream_;
};

class CudaBatchNorm final : public Op {
 public:
  CudaBatchNorm(const BatchNormOptions& options, CudaStream* stream)
      : options_(options), stream_(stream) {}

  Status Prepare(int64_t n, bool training) override {
    if (!training) {
      return Status::Ok();
    }
    if (moments_ == nullptr) {
      const auto size_bytes = 2 * sizeof(float) * static_cast<size_t>(options_.channels);
      PS_ASSIGN(moments_, AllocateCudaMemory(stream_->device(), MemoryKind::kDevice, size_bytes));
    }
    return stream_->ReserveScratch(
        OwnScratch(n) + ColumnSumScratch(Shape(n).rows, options_.channels));
  }

  void Forward(const ForwardArgs& args) override {
    const BatchNormShape shape = Shape(args.n);
    cudaStream_t stream = stream_->Enter();
    const float* mean = args.params[2].data();
    const float* variance = args.params[3].data();
    if (args.training) {
      stream_->Note(BatchMoments(stream, shape, args.x, stream_->scratch(), Mean(), Variance()));
      mean = Mean();
      variance = Variance();
    }
    stream_->Note(BatchNormForward(
        stream,
        shape,
        args.x,
        args.params[0].data(),
        args.params[1].data(),
        mean,
        variance,
        args.y));
  }

  void Backward(const BackwardArgs& args) override {
    const BatchNormShape shape = Shape(args.n);
    const float* dy =
        GradientBeforeActivation(stream_, options_.activation, args, shape.rows * shape.channels);
    stream_->Note(BatchNormBackward(
        stream_->Enter(),
        shape,
        {.x = args.x,
         .gamma = args.params[0].data(),
         .mean = Mean(),
         .variance = Variance(),
         .dy = dy,
         .scratch = stream_->scratch() + OwnScratch(args.n),
         .dgamma = args.grads[0].data(),
         .dbeta = args.grads[1].data(),
         .dx = args.dx}));
    // What the batch showed, for the running statistics.
    const float correction =
        shape.rows > 1 ? static_cast<float>(shape.rows) / static_cast<float>(shape.rows - 1) : 0;
    stream_->Copy(Mean(), args.grads[2].data(), options_.channels);
    stream_->Copy(Variance(), args.grads[3].data(), options_.channels);
    stream_->Scale(correction, args.grads[3].data(), options_.channels);
  }

  OpTraits traits() const override {
    return {.backward_reads_output = options_.activation != Activation::kNone};
  }

 private:
  int64_t OwnScratch(int64_t n) const {
    return ActivationScratch(options_.activation, Shape(n).rows * options_.channels);
  }

  BatchNormShape Shape(int64_t n) const {
    return {
        n * options_.height * options_.width,
        options_.channels,
        options_.epsilon,
        options_.activation};
  }

  float* Mean() const { return moments_->floats(); }

  float* Variance() const { return moments_->floats() + options_.channels; }

  const BatchNormOptions options_;
  CudaStream* const stream_;
  std::unique_ptr<Memory> moments_;  // of the last training batch: means, then biased variances
};

class CudaPool final : public Op {
 public:
  CudaPool(const PoolOptions& options, CudaStream* stream) : options_(options), stream_(stream) {}

  Status Prepare(int64_t n, bool training) override {
    const PoolShape shape = Shape(n);
    const auto size_bytes =
        sizeof(int32_t) *
        static_cast<size_t>(n * shape.out_height * shape.out_width * options_.channels);
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
    PS_CHECK(args.dx != nullptr) << "a pool has nothing but its input's gradient to compute";
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

  int32_t* Winners() const {
    return winners_ == nullptr ? nullptr : reinterpret_cast<int32_t*>(winners_->data());
  }

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
    PS_CHECK(args.dx != nullptr) << "an activation has only its input's gradient to compute";
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
    PS_CHECK(args.dx != nullptr) << "dropout has only its input's gradient to compute";
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
    PS_CHECK(args.dx != nullptr) << "a layout change has only its input's gradient to compute";
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
  MadeOp operator()(const LinearOptions& o) const { return Make<CudaLinear>(o, stream); }

  MadeOp operator()(const Conv2dOptions& o) const { return Make<CudaConv2d>(o, stream); }

  MadeOp operator()(const BatchNormOptions& o) const { return Make<CudaBatchNorm>(o, stream); }

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
