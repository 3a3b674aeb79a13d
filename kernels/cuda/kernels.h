#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace ps::kernels {

// What the .cu files do, as the host sees it: each function puts kernels into a stream and returns
// before they have run. All memory is the device's, f32, dense. Sizes of 0 are fine. Returned is
// whether the device took the work.

// elementwise.cu

cudaError_t CopyValues(cudaStream_t stream, const float* x, float* y, int64_t n);
cudaError_t FillValues(cudaStream_t stream, float value, float* y, int64_t n);
/// y[i] = a[i] + b[i]; y may be a or b.
cudaError_t AddValues(cudaStream_t stream, const float* a, const float* b, float* y, int64_t n);
/// y[i] = a[i] - b[i]; y may be a or b.
cudaError_t SubtractValues(
    cudaStream_t stream, const float* a, const float* b, float* y, int64_t n);
cudaError_t ScaleValues(cudaStream_t stream, float factor, float* x, int64_t n);
/// x[i] *= *factor, which is in device memory.
cudaError_t ScaleValuesBy(cudaStream_t stream, const float* factor, float* x, int64_t n);
cudaError_t PackBf16Values(cudaStream_t stream, const float* x, uint16_t* y, int64_t n);
/// y may be x; likewise dx and dy.
cudaError_t ReluForward(cudaStream_t stream, const float* x, float* y, int64_t n);
cudaError_t ReluBackward(
    cudaStream_t stream, const float* y, const float* dy, float* dx, int64_t n);
cudaError_t GeluForward(cudaStream_t stream, const float* x, float* y, int64_t n);
cudaError_t GeluBackward(
    cudaStream_t stream, const float* x, const float* dy, float* dx, int64_t n);

/// What decides a dropout's mask: element i is dropped if its 32 random bits are below threshold.
struct DropoutMask {
  uint64_t key = 0;  // of the layer
  const uint64_t* step = nullptr;
  uint64_t threshold = 0;
  float scale = 1;  // of what is kept
};

/// y = x * mask, forward and backward. y may be x.
cudaError_t ApplyDropout(
    cudaStream_t stream, const DropoutMask& mask, const float* x, float* y, int64_t n);
/// y[n, c, r] = x[n, r, c].
cudaError_t TransposeSamples(
    cudaStream_t stream, const float* x, float* y, int64_t n, int64_t rows, int64_t columns);

// pool.cu

struct PoolShape {
  int64_t n = 0;
  PoolOptions options;
  int64_t out_height = 0;
  int64_t out_width = 0;
};

/// Bytes of a winner: 1 where they tell all places of a window apart, else 4.
int64_t PoolWinnerBytes(const PoolOptions& options);
/// winners [n, oh, ow, c]: which element of each window won, for the backward pass of a maximum;
/// may be nullptr.
cudaError_t PoolForward(
    cudaStream_t stream, const PoolShape& shape, const float* x, float* y, void* winners);
cudaError_t PoolBackward(
    cudaStream_t stream, const PoolShape& shape, const float* dy, const void* winners, float* dx);

// conv2d.cu, conv2d_weights.cu

struct ConvShape {
  int64_t n = 0;
  Conv2dOptions options;
  int64_t out_height = 0;
  int64_t out_width = 0;
};

// The activation in the options is that of the forward pass; the others begin in front of it.

/// Weights, and floats of scratch for the first two.
int64_t ConvWeightCount(const ConvShape& shape);
/// bias may be nullptr.
cudaError_t ConvForward(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* x,
    const float* w,
    const float* bias,
    float* scratch,
    float* y);
cudaError_t ConvInputGradient(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* dy,
    const float* w,
    float* scratch,
    float* dx);
/// Floats of scratch for the weights' gradient.
int64_t ConvGradientScratch(const ConvShape& shape);
cudaError_t ConvWeightGradient(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* x,
    const float* dy,
    float* scratch,
    float* dw);

// grouped_conv2d.cu: the same for any number of groups; those above take one.

cudaError_t GroupedConvForward(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* x,
    const float* w,
    const float* bias,
    float* scratch,
    float* y);
cudaError_t GroupedConvInputGradient(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* dy,
    const float* w,
    float* scratch,
    float* dx);
int64_t GroupedConvGradientScratch(const ConvShape& shape);
cudaError_t GroupedConvWeightGradient(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* x,
    const float* dy,
    float* scratch,
    float* dw);

// batch_norm.cu

struct BatchNormShape {
  int64_t rows = 0;  // samples * height * width
  int64_t channels = 0;
  float epsilon = 0;
  Activation activation = Activation::kNone;  // of the forward pass
};

/// Mean and biased variance [channels] of the batch. scratch: ColumnSumScratch(rows, channels).
cudaError_t BatchMoments(
    cudaStream_t stream,
    const BatchNormShape& shape,
    const float* x,
    float* scratch,
    float* mean,
    float* variance);
/// side: is added in front of the activation; may be nullptr.
cudaError_t BatchNormForward(
    cudaStream_t stream,
    const BatchNormShape& shape,
    const float* x,
    const float* gamma,
    const float* beta,
    const float* mean,
    const float* variance,
    const float* side,
    float* y);

struct BatchNormGradient {
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  const float* mean = nullptr;
  const float* variance = nullptr;
  const float* dy = nullptr;  // of the output, or of what is in front of a side and an activation
  float* scratch = nullptr;   // as above
  float* dgamma = nullptr;
  float* dbeta = nullptr;
  float* means = nullptr;      // what the batch showed: mean, and
  float* variances = nullptr;  // unbiased variance
  float* dx = nullptr;         // may be nullptr
};

/// The shape's activation is that between y and dy: none with a side.
cudaError_t BatchNormBackward(
    cudaStream_t stream, const BatchNormShape& shape, const BatchNormGradient& gradient);

// layer_norm.cu

struct LayerNormShape {
  int64_t rows = 0;
  int64_t features = 0;
  float epsilon = 0;
};

struct LayerNormOutput {
  const float* x = nullptr;
  const float* side = nullptr;  // may be nullptr; else it is added to x, and
  float* sum = nullptr;         // gets what is normalised
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float* means = nullptr;    // of each row [rows], for the backward pass, and
  float* factors = nullptr;  // 1 / sqrt(variance + epsilon)
  float* y = nullptr;
};

cudaError_t LayerNormForward(
    cudaStream_t stream, const LayerNormShape& shape, const LayerNormOutput& output);

struct LayerNormGradient {
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* means = nullptr;
  const float* factors = nullptr;
  const float* dy = nullptr;
  const float* dx_side = nullptr;  // is added to dx; may be nullptr
  float* scratch = nullptr;        // LayerNormScratch(rows, features)
  float* dgamma = nullptr;
  float* dbeta = nullptr;
  float* dx = nullptr;  // may be nullptr
};

/// Floats.
int64_t LayerNormScratch(int64_t rows, int64_t features);
cudaError_t LayerNormBackward(
    cudaStream_t stream, const LayerNormShape& shape, const LayerNormGradient& gradient);

// embedding.cu

/// positions may be nullptr.
cudaError_t EmbeddingForward(
    cudaStream_t stream,
    const EmbeddingOptions& options,
    int64_t n,
    const float* x,
    const float* tokens,
    const float* positions,
    float* y);
/// dpositions may be nullptr.
cudaError_t EmbeddingBackward(
    cudaStream_t stream,
    const EmbeddingOptions& options,
    int64_t n,
    const float* x,
    const float* dy,
    float* dtokens,
    float* dpositions);

// attention.cu

constexpr int64_t kHeadWidthMax = 128;

struct AttentionShape {
  int64_t n = 0;
  AttentionOptions options;
  int64_t head_width = 0;  // at most kHeadWidthMax
  float scale = 0;         // of scores
};

/// How many values a thing has that has one for each row of each head: [n, heads, length rounded up
/// to fours].
int64_t AttentionRowValues(const AttentionShape& shape);

/// Floats of scratch that a pass needs, aligned to 16 bytes: for bf16 the factors of its products,
/// rounded, and for the backward pass a value for each row.
int64_t AttentionScratch(const AttentionShape& shape, bool is_backward);

/// Writes the binary logarithm of each row's sum for the backward pass, AttentionRowValues() of
/// them.
cudaError_t AttentionForward(
    cudaStream_t stream,
    const AttentionShape& shape,
    const float* x,
    float* scratch,
    float* log_sums,
    float* y);

struct AttentionGradient {
  const float* x = nullptr;
  const float* y = nullptr;
  const float* log_sums = nullptr;
  const float* dy = nullptr;
  float* scratch = nullptr;
  float* dx = nullptr;
};

cudaError_t AttentionBackward(
    cudaStream_t stream, const AttentionShape& shape, const AttentionGradient& gradient);

// gemm/tiled_gemm.cu

/// A product of row-major matrices, c[m,n] = a[m,k] b[k,n], either factor stored transposed.
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;  // a is stored [k,m]
  bool transpose_b = false;  // b is stored [n,k]
  bool bias = false;         // of n values, added to each row
  Precision precision = Precision::kF32;
  Activation activation = Activation::kNone;  // of c
  // Values from a row of the stored matrix to the next; 0: no gap between rows. What is in a gap
  // is neither read nor written.
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t ldc = 0;
  // In memory as bf16, not f32. Factors may be so in Precision::kBf16 only. A result is rounded to
  // the nearest, ties to even, and so is its bias, which is f32 in memory.
  bool bf16_a = false;
  bool bf16_b = false;
  bool bf16_c = false;

  // Matrices as they are stored.
  int64_t rows_a() const { return transpose_a ? k : m; }

  int64_t columns_a() const { return transpose_a ? m : k; }

  int64_t rows_b() const { return transpose_b ? n : k; }

  int64_t columns_b() const { return transpose_b ? k : n; }

  int64_t pitch_a() const { return lda == 0 ? columns_a() : lda; }

  int64_t pitch_b() const { return ldb == 0 ? columns_b() : ldb; }

  int64_t pitch_c() const { return ldc == 0 ? n : ldc; }

  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

/// `a` and `b` are f32 here; `c` is what the shape says. Requires: no bf16_a, no bf16_b.
cudaError_t TiledGemm(
    cudaStream_t stream,
    const GemmShape& shape,
    const float* a,
    const float* b,
    const float* bias,
    void* c);

// gemm/round_rows.cu

/// y [rows, columns] = x as bf16, rounded to the nearest, ties to even; a NaN stays one. Rows of x
/// are `from_pitch` floats apart, those of y `pitch` values, which is a multiple of 8; between
/// `columns` and the pitch y is 0. y is aligned to 16 bytes.
cudaError_t RoundRows(
    cudaStream_t stream,
    const float* x,
    int64_t rows,
    int64_t columns,
    int64_t from_pitch,
    uint16_t* y,
    int64_t pitch);

// reduce.cu

/// Floats of scratch for up to two sums over the rows of each column.
int64_t ColumnSumScratch(int64_t rows, int64_t columns);
/// out[j] = sum over i of x[i, j], in a fixed order.
cudaError_t ColumnSum(
    cudaStream_t stream, const float* x, int64_t rows, int64_t columns, float* scratch, float* out);

/// The gradient in front of an activation, from dy behind it and what its formula is of: the output
/// of relu, the input of gelu. `d` [rows, columns] may be either. out: as ColumnSum, of d.
cudaError_t ActivationGradientSum(
    cudaStream_t stream,
    Activation activation,
    const float* data,
    const float* dy,
    float* d,
    int64_t rows,
    int64_t columns,
    float* scratch,
    float* out);

/// Partial results of the next two; as many as there may be blocks.
constexpr int64_t kPartialsMax = 256;

/// scratch: kPartialsMax values.
cudaError_t SquaredNormOf(
    cudaStream_t stream, const float* x, int64_t n, double* scratch, double* sum);

/// As Stream::ClipFactor.
cudaError_t ClipFactorOf(
    cudaStream_t stream, const double* squares, int64_t count, float norm_max, float* factor);

// loss.cu

/// scratch: kPartialsMax values.
cudaError_t LossOf(cudaStream_t stream, const LossArgs& args, LossResult* scratch);

// encode.cu

/// As Stream::Encode.
cudaError_t EncodeValues(cudaStream_t stream, const EncodeArgs& args);

// pictures.cu

cudaError_t PicturesOf(cudaStream_t stream, const PictureArgs& args);

// optimizer.cu

// As the functions of Stream that have these arguments.
cudaError_t UpdateParameters(
    cudaStream_t stream,
    const OptimizerRule& rule,
    std::span<const TensorUpdate> updates,
    uint32_t* left_out);
cudaError_t MoveAveragesTowards(cudaStream_t stream, std::span<const AverageMove> moves);
cudaError_t FindNotFinite(cudaStream_t stream, ConstSpans tensors, uint32_t* not_finite);

}  // namespace ps::kernels
