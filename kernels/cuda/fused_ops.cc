#include "kernels/cuda/fused_ops.h"

#include <fmt/core.h>

#include <algorithm>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/kernels.h"

namespace ps::kernels {
namespace {

/// c = a b by cuBLASLt, or by the folder's own kernel.
Status PrepareGemm(CudaStream* stream, const GemmShape& shape) {
  Gemm* const gemm = stream->gemm();
  return gemm == nullptr ? Status::Ok() : gemm->Prepare(stream->Enter(), shape);
}

void RunGemm(
    CudaStream* stream,
    const GemmShape& shape,
    const float* a,
    const float* b,
    const float* bias,
    float* c,
    bool a_as_before = false) {
  cudaStream_t handle = stream->Enter();
  if (stream->gemm() == nullptr) {
    stream->Note(TiledGemm(handle, shape, a, b, bias, c));
  } else {
    stream->Note(stream->gemm()->Run(handle, shape, a, b, bias, c, a_as_before));
  }
}

/// What a backward pass puts in front of the scratch of its kernels: the gradient of what the op
/// has before its activation, `size` values.
int64_t ActivationScratch(Activation activation, int64_t size) {
  constexpr int64_t kAligned = 4;  // what follows it is loaded by fours
  return activation == Activation::kNone ? 0 : (size + kAligned - 1) / kAligned * kAligned;
}

const float* GradientBeforeActivation(
    CudaStream* stream, Activation activation, const BackwardArgs& args, int64_t size) {
  if (activation == Activation::kNone) {
    return args.dy;
  }
  stream->Note(ReluBackward(stream->Enter(), args.y, args.dy, stream->scratch(), size));
  return stream->scratch();
}

/// On `rows` vectors of each sample. With gelu, what is in front of it stays in memory of the op,
/// where backward its gradient goes.
class CudaLinear final : public Op {
 public:
  CudaLinear(const LinearOptions& options, int64_t rows, CudaStream* stream)
      : options_(options), rows_(rows), stream_(stream) {}

  Status Prepare(int64_t samples, bool training) override {
    const int64_t n = samples * rows_;
    PS_TRY(PrepareGemm(stream_, ForwardShape(n)));
    if (!training) {
      return Status::Ok();
    }
    PS_TRY(PrepareGemm(stream_, WeightShape(n)));
    if (options_.input_gradient) {
      PS_TRY(PrepareGemm(stream_, InputShape(n)));
    }
    const auto size_bytes = sizeof(float) * static_cast<size_t>(n * options_.out_features);
    if (has_gelu() && (before_gelu_ == nullptr || before_gelu_->size() < size_bytes)) {
      before_gelu_.reset();
      PS_ASSIGN(
          before_gelu_, AllocateCudaMemory(stream_->device(), MemoryKind::kDevice, size_bytes));
    }
    return stream_->ReserveScratch(OwnScratch(n) + ColumnSumScratch(n, options_.out_features));
  }

  void Forward(const ForwardArgs& args) override {
    const float* bias = options_.bias ? args.params[1].data() : nullptr;
    const int64_t n = args.n * rows_;
    float* const product = has_gelu() && args.training ? before_gelu_->floats() : args.y;
    RunGemm(stream_, ForwardShape(n), args.x, args.params[0].data(), bias, product);
    if (has_gelu()) {
      stream_->Note(GeluForward(stream_->Enter(), product, args.y, n * options_.out_features));
    }
  }

  void Backward(const BackwardArgs& args) override {
    const int64_t n = args.n * rows_;
    const float* dy = BeforeActivation(args, n);
    RunGemm(stream_, WeightShape(n), dy, args.x, nullptr, args.grads[0].data());
    if (args.dx != nullptr) {
      RunGemm(stream_, InputShape(n), dy, args.params[0].data(), nullptr, args.dx, true);
    }
  }

  OpTraits traits() const override {
    return {.backward_reads_output = options_.activation == Activation::kRelu};
  }

 private:
  bool has_gelu() const { return options_.activation == Activation::kGelu; }

  int64_t OwnScratch(int64_t n) const {
    const bool has_relu = options_.activation == Activation::kRelu;
    return has_relu ? ActivationScratch(options_.activation, n * options_.out_features) : 0;
  }

  /// The gradient of what the op has before its activation, and in the same pass that of the bias.
  const float* BeforeActivation(const BackwardArgs& args, int64_t n) {
    cudaStream_t stream = stream_->Enter();
    const int64_t columns = options_.out_features;
    float* const sums = stream_->scratch() + OwnScratch(n);
    float* const bias = options_.bias ? args.grads[1].data() : nullptr;
    if (options_.activation == Activation::kNone) {
      if (bias != nullptr) {
        stream_->Note(ColumnSum(stream, args.dy, n, columns, sums, bias));
      }
      return args.dy;
    }
    const float* const data = has_gelu() ? before_gelu_->floats() : args.y;
    float* const d = has_gelu() ? before_gelu_->floats() : stream_->scratch();
    if (bias != nullptr) {
      stream_->Note(ActivationGradientSum(
          stream, options_.activation, data, args.dy, d, n, columns, sums, bias));
    } else {
      const auto run = has_gelu() ? &GeluBackward : &ReluBackward;
      stream_->Note(run(stream, data, args.dy, d, n * columns));
    }
    return d;
  }

  GemmShape ForwardShape(int64_t n) const {
    return {
        .m = n,
        .n = options_.out_features,
        .k = options_.in_features,
        .transpose_b = true,
        .bias = options_.bias,
        .precision = options_.precision,
        .activation = has_gelu() ? Activation::kNone : options_.activation};
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
  const int64_t rows_;
  CudaStream* const stream_;
  std::unique_ptr<Memory> before_gelu_;  // of the last training batch
};

class CudaConv2d final : public Op {
 public:
  CudaConv2d(const Conv2dOptions& options, CudaStream* stream)
      : options_(options), stream_(stream) {}

  Status Prepare(int64_t n, bool training) override {
    const ConvShape shape = Shape(n);
    // The kernels count these in 32 bits, and subtract.
    constexpr int64_t kMax = int64_t{1} << 30;
    const int64_t image = options_.in_height * options_.in_width * options_.in_channels;
    const int64_t map = shape.out_height * shape.out_width * options_.out_channels;
    const int64_t largest =
        std::max({OutputPixels(shape), n * options_.in_height * options_.in_width, image, map});
    if (largest > kMax) {
      return Status::Unsupported(fmt::format(
          "a convolution on a CUDA device takes up to {} pixels of a minibatch, and values of a "
          "picture, and this one has {}; make train.minibatch smaller",
          kMax,
          largest));
    }
    if (!training) {
      return stream_->ReserveScratch(ConvWeightCount(shape));
    }
    const int64_t bias_scratch = ColumnSumScratch(OutputPixels(shape), options_.out_channels);
    return stream_->ReserveScratch(
        OwnScratch(shape) +
        std::max({ConvWeightCount(shape), WeightGradientScratch(shape), bias_scratch}));
  }

  void Forward(const ForwardArgs& args) override {
    const auto run = is_grouped() ? &GroupedConvForward : &ConvForward;
    stream_->Note(
        run(stream_->Enter(),
            Shape(args.n),
            args.x,
            args.params[0].data(),
            options_.bias ? args.params[1].data() : nullptr,
            stream_->scratch(),
            args.y));
  }

  void Backward(const BackwardArgs& args) override {
    const ConvShape shape = Shape(args.n);
    cudaStream_t stream = stream_->Enter();
    const float* dy = GradientBeforeActivation(
        stream_, options_.activation, args, OutputPixels(shape) * options_.out_channels);
    float* scratch = stream_->scratch() + OwnScratch(shape);
    const auto weights = is_grouped() ? &GroupedConvWeightGradient : &ConvWeightGradient;
    stream_->Note(weights(stream, shape, args.x, dy, scratch, args.grads[0].data()));
    if (options_.bias) {
      stream_->Note(ColumnSum(
          stream, dy, OutputPixels(shape), options_.out_channels, scratch, args.grads[1].data()));
    }
    if (args.dx != nullptr) {
      const auto input = is_grouped() ? &GroupedConvInputGradient : &ConvInputGradient;
      stream_->Note(input(stream, shape, dy, args.params[0].data(), scratch, args.dx));
    }
  }

  OpTraits traits() const override {
    return {.backward_reads_output = options_.activation != Activation::kNone};
  }

 private:
  bool is_grouped() const { return options_.groups > 1; }

  int64_t WeightGradientScratch(const ConvShape& shape) const {
    return is_grouped() ? GroupedConvGradientScratch(shape) : ConvGradientScratch(shape);
  }

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

/// Whether each output pixel is a product of one input pixel, with weights [out, in]. cuBLASLt
/// makes it faster than the kernels here. The folder's own kernel for products does not: it has one
/// tile, and convolutions choose theirs.
bool IsProduct(const Conv2dOptions& o) {
  return o.kernel == 1 && o.stride == 1 && o.padding == 0 && o.groups == 1;
}

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
    return stream_->ReserveScratch(ColumnSumScratch(Shape(n).rows, options_.channels));
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
        options_.adds_side ? args.side : nullptr,
        args.y));
  }

  void Backward(const BackwardArgs& args) override {
    BatchNormShape shape = Shape(args.n);
    if (options_.adds_side) {
      shape.activation = Activation::kNone;  // dy is that in front of it
    }
    stream_->Note(BatchNormBackward(
        stream_->Enter(),
        shape,
        {.x = args.x,
         .gamma = args.params[0].data(),
         .beta = args.params[1].data(),
         .mean = Mean(),
         .variance = Variance(),
         .dy = args.dy,
         .scratch = stream_->scratch(),
         .dgamma = args.grads[0].data(),
         .dbeta = args.grads[1].data(),
         .means = args.grads[2].data(),
         .variances = args.grads[3].data(),
         .dx = args.dx}));
  }

  OpTraits traits() const override { return {}; }

 private:
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

}  // namespace

Result<std::unique_ptr<Op>> MakeCudaLinear(const LinearOptions& options, CudaStream* stream) {
  return std::unique_ptr<Op>(std::make_unique<CudaLinear>(options, 1, stream));
}

Result<std::unique_ptr<Op>> MakeCudaConv2d(const Conv2dOptions& options, CudaStream* stream) {
  if (options.activation == Activation::kGelu) {
    return Status::Unsupported("of the CUDA ops only linear ends in gelu");
  }
  if (IsProduct(options) && stream->gemm() != nullptr && stream->gemm()->Takes(options.precision)) {
    const LinearOptions product{
        .in_features = options.in_channels,
        .out_features = options.out_channels,
        .bias = options.bias,
        .input_gradient = options.input_gradient,
        .precision = options.precision,
        .activation = options.activation};
    return std::unique_ptr<Op>(
        std::make_unique<CudaLinear>(product, options.in_height * options.in_width, stream));
  }
  return std::unique_ptr<Op>(std::make_unique<CudaConv2d>(options, stream));
}

Result<std::unique_ptr<Op>> MakeCudaBatchNorm(const BatchNormOptions& options, CudaStream* stream) {
  if (options.activation == Activation::kGelu) {
    return Status::Unsupported("of the CUDA ops only linear ends in gelu");
  }
  return std::unique_ptr<Op>(std::make_unique<CudaBatchNorm>(options, stream));
}

}  // namespace ps::kernels
