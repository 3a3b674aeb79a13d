#include "kernels/cuda/sequence_ops.h"

#include <fmt/core.h>

#include <cmath>

#include "kernels/cuda/kernels.h"
#include "ps/base/check.h"

namespace ps::kernels {
namespace {

/// Makes *memory hold at least `floats`. What it held is lost when it grows.
Status Grow(const CudaStream& stream, int64_t floats, std::unique_ptr<Memory>* memory) {
  const auto size_bytes = sizeof(float) * static_cast<size_t>(floats);
  if (*memory == nullptr || (*memory)->size() < size_bytes) {
    PS_ASSIGN(*memory, AllocateCudaMemory(stream.device(), MemoryKind::kDevice, size_bytes));
  }
  return Status::Ok();
}

class CudaEmbedding final : public Op {
 public:
  CudaEmbedding(const EmbeddingOptions& options, CudaStream* stream)
      : options_(options), stream_(stream) {}

  Status Prepare(int64_t /*n*/, bool /*training*/) override { return Status::Ok(); }

  void Forward(const ForwardArgs& args) override {
    stream_->Note(EmbeddingForward(
        stream_->Enter(),
        options_,
        args.n,
        args.x,
        args.params[0].data(),
        options_.positions ? args.params[1].data() : nullptr,
        args.y));
  }

  void Backward(const BackwardArgs& args) override {
    PS_CHECK(args.dx == nullptr) << "tokens have no gradient";
    stream_->Note(EmbeddingBackward(
        stream_->Enter(),
        options_,
        args.n,
        args.x,
        args.dy,
        args.grads[0].data(),
        options_.positions ? args.grads[1].data() : nullptr));
  }

  OpTraits traits() const override { return {}; }

 private:
  const EmbeddingOptions options_;
  CudaStream* const stream_;
};

class CudaLayerNorm final : public Op {
 public:
  CudaLayerNorm(const LayerNormOptions& options, CudaStream* stream)
      : options_(options), stream_(stream) {}

  Status Prepare(int64_t n, bool training) override {
    PS_TRY(Grow(*stream_, 2 * n, &moments_));
    return training ? stream_->ReserveScratch(LayerNormScratch(n, options_.features))
                    : Status::Ok();
  }

  void Forward(const ForwardArgs& args) override {
    stream_->Note(LayerNormForward(
        stream_->Enter(),
        Shape(args.n),
        {.x = args.x,
         .side = args.side,
         .sum = args.sum,
         .gamma = args.params[0].data(),
         .beta = args.params[1].data(),
         .means = moments_->floats(),
         .factors = moments_->floats() + args.n,
         .y = args.y}));
  }

  void Backward(const BackwardArgs& args) override {
    stream_->Note(LayerNormBackward(
        stream_->Enter(),
        Shape(args.n),
        {.x = args.x,
         .gamma = args.params[0].data(),
         .means = moments_->floats(),
         .factors = moments_->floats() + args.n,
         .dy = args.dy,
         .dx_side = args.dx_side,
         .scratch = stream_->scratch(),
         .dgamma = args.grads[0].data(),
         .dbeta = args.grads[1].data(),
         .dx = args.dx}));
  }

  OpTraits traits() const override { return {.sums_input = true, .adds_to_dx = true}; }

 private:
  LayerNormShape Shape(int64_t n) const { return {n, options_.features, options_.epsilon}; }

  const LayerNormOptions options_;
  CudaStream* const stream_;
  std::unique_ptr<Memory> moments_;  // of the last batch: means, then factors
};

class CudaAttention final : public Op {
 public:
  CudaAttention(const AttentionOptions& options, CudaStream* stream)
      : options_(options), head_width_(options.width / options.heads), stream_(stream) {
    PS_CHECK(options.width % options.heads == 0);
  }

  Status Prepare(int64_t n, bool training) override {
    PS_TRY(Grow(*stream_, AttentionRowValues(Shape(n)), &log_sums_));
    return stream_->ReserveScratch(AttentionScratch(Shape(n), training));
  }

  void Forward(const ForwardArgs& args) override {
    stream_->Note(AttentionForward(
        stream_->Enter(), Shape(args.n), args.x, stream_->scratch(), log_sums_->floats(), args.y));
  }

  void Backward(const BackwardArgs& args) override {
    PS_CHECK(args.dx != nullptr || args.n == 0)
        << "attention has only its input's gradient to compute";
    stream_->Note(AttentionBackward(
        stream_->Enter(),
        Shape(args.n),
        {.x = args.x,
         .y = args.y,
         .log_sums = log_sums_->floats(),
         .dy = args.dy,
         .scratch = stream_->scratch(),
         .dx = args.dx}));
  }

  OpTraits traits() const override { return {.backward_reads_output = true}; }

 private:
  AttentionShape Shape(int64_t n) const {
    return {n, options_, head_width_, 1.0F / std::sqrt(static_cast<float>(head_width_))};
  }

  const AttentionOptions options_;
  const int64_t head_width_;
  CudaStream* const stream_;
  std::unique_ptr<Memory> log_sums_;  // of the last batch
};

}  // namespace

Result<std::unique_ptr<Op>> MakeCudaEmbedding(const EmbeddingOptions& options, CudaStream* stream) {
  return std::unique_ptr<Op>(std::make_unique<CudaEmbedding>(options, stream));
}

Result<std::unique_ptr<Op>> MakeCudaLayerNorm(const LayerNormOptions& options, CudaStream* stream) {
  return std::unique_ptr<Op>(std::make_unique<CudaLayerNorm>(options, stream));
}

Result<std::unique_ptr<Op>> MakeCudaAttention(const AttentionOptions& options, CudaStream* stream) {
  if (options.width / options.heads > kHeadWidthMax) {
    return Status::Unsupported(fmt::format(
        "the CUDA kernels take attention heads of up to {} features, and this one has {}; take "
        "more heads, or device cpu",
        kHeadWidthMax,
        options.width / options.heads));
  }
  return std::unique_ptr<Op>(std::make_unique<CudaAttention>(options, stream));
}

}  // namespace ps::kernels
