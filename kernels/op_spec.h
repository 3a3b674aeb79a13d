#pragma once

#include <cstdint>
#include <variant>

#include "kernels/portable_ops_generated.h"

namespace ps::kernels {

// What an op computes, as every backend knows it. Inputs and outputs are NHWC (kernels/op.h);
// `elements` is per sample. Output height and width of a window that moves are
// (in + 2*padding - kernel) / stride + 1, rounded down, and positive.

/// What the factors of an op's products are rounded to, to the nearest, ties to even. Memory is f32
/// and sums are added up in f32, whatever the precision.
enum class Precision : uint8_t { kF32, kBf16 };

/// What an op does to its output at the end, which spares a pass over it: the same as the op and
/// then that one, forward and backward. A backend may lack it (kUnsupported).
enum class Activation : uint8_t { kNone, kRelu, kGelu };

/// y[n,o] = b[o] + sum over i of x[n,i] * w[o,i].
///   params  w [o,i], then b [o] if there is a bias
struct LinearOptions {
  int64_t in_features = 1;
  int64_t out_features = 1;
  bool bias = true;
  bool input_gradient = true;             // false: Backward is never asked for dx
  Precision precision = Precision::kF32;  // of x, w and dy
  Activation activation = Activation::kNone;
};

/// y[n,oh,ow,o] = b[o] + sum over i,kh,kw of x[n, oh*s+kh-p, ow*s+kw-p, g+i] * w[o,i,kh,kw], g
/// being the first input channel of o's group and i the channels of one.
///   params  w [o,i,kh,kw], then b [o] if there is a bias
struct Conv2dOptions {
  int64_t in_channels = 1;
  int64_t in_height = 1;
  int64_t in_width = 1;
  int64_t out_channels = 1;
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = 0;  // zeros on all four sides
  bool bias = true;
  bool input_gradient = true;             // false: Backward is never asked for dx
  Precision precision = Precision::kF32;  // of x, w and dy
  Activation activation = Activation::kNone;
  int64_t groups = 1;  // divides the input's and the output's channels
};

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, per channel. Training takes mean and
/// (biased) variance of the batch over n*h*w values, evaluation the running ones.
///   params  gamma [c], beta [c], running mean [c], running variance [c]
///   grads   of gamma and beta; the last two are observations for the running statistics: the
///           batch's mean and its unbiased variance (of a single value: 0; of none: both 0)
struct BatchNormOptions {
  int64_t channels = 1;
  int64_t height = 1;
  int64_t width = 1;
  float epsilon = 1e-5F;
  bool input_gradient = true;  // false: Backward is never asked for dx
  Activation activation = Activation::kNone;
  /// The op adds a side in front of the activation (ForwardArgs::side), as the end of a residual
  /// layer does. Backward begins behind the addition: its dy is the gradient of the sum, which the
  /// side gets too. A backend may lack it (kUnsupported).
  bool adds_side = false;
};

enum class PoolKind : uint8_t {
  kMax,      // padding never wins; backward goes to one largest element of a window
  kAverage,  // padding counts as zeros, so every window is divided by its full area
};

/// Windows of kernel_height x kernel_width. A global average pool is a kAverage with the input's
/// size as kernel and no padding.
struct PoolOptions {
  PoolKind kind = PoolKind::kMax;
  int64_t channels = 1;
  int64_t in_height = 1;
  int64_t in_width = 1;
  int64_t kernel_height = 2;
  int64_t kernel_width = 2;
  int64_t stride = 2;
  int64_t padding = 0;  // < kernel
};

/// y = max(x, 0); its gradient at 0 is 0. Runs in place.
struct ReluOptions {
  int64_t elements = 1;
};

/// y = x * Phi(x), Phi the normal distribution function by erf (not the tanh approximation).
struct GeluOptions {
  int64_t elements = 1;
};

/// Training: y = x / (1 - rate) where kept, 0 where not; evaluation: y = x. Whether element i of
/// the batch is kept in step s is a function of (seed, layer, s, i) alone. Runs in place.
struct DropoutOptions {
  int64_t elements = 1;
  float rate = 0.5F;  // probability of zeroing, in [0, 1)
  uint64_t seed = 0;
  uint64_t layer = 0;  // tells apart the masks of one network's dropouts
};

/// [n,h,w,c] -> [n,c,h,w]: makes of an image the flat vector in canonical (channel-major) order.
struct FlattenOptions {
  int64_t channels = 1;
  int64_t height = 1;
  int64_t width = 1;
};

/// [n,c,h,w] -> [n,h,w,c]: the way in for canonical images.
struct ChannelsLastOptions {
  int64_t channels = 1;
  int64_t height = 1;
  int64_t width = 1;
};

/// y[n,t] = tokens[x[n,t]] + positions[t], rows of `width`. x [n,length] holds numbers of tokens,
/// in [0, vocabulary), as floats; what is none makes its row NaN. Tokens have no gradient: Backward
/// is never asked for dx.
///   params  tokens [vocabulary,width], then positions [length,width] if there are any
struct EmbeddingOptions {
  int64_t vocabulary = 1;  // at most 2^24
  int64_t length = 1;
  int64_t width = 1;
  bool positions = true;
};

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, mean and (biased) variance over the
/// features of each of the n vectors.
///   params  gamma [features], beta [features]
struct LayerNormOptions {
  int64_t features = 1;
  float epsilon = 1e-5F;
  bool input_gradient = true;  // false: Backward is never asked for dx
};

/// Scaled dot-product attention, by head: y[t] = sum over u of softmax(q[t] k[u] / sqrt(w))[u]
/// v[u], w = width / heads. x [n,length,3*width] holds q, k and v of each token one behind the
/// other, each with its heads in order; y is [n,length,width].
struct AttentionOptions {
  int64_t length = 1;
  int64_t width = 1;
  int64_t heads = 1;                      // divides the width
  bool causal = false;                    // u <= t only
  Precision precision = Precision::kF32;  // of q, k, v, dy, the softmax and its gradient
};

/// Ops with an implementation for each device, and those of kernels/ops.
template <typename... Portable>
std::variant<
    LinearOptions,
    Conv2dOptions,
    BatchNormOptions,
    PoolOptions,
    ReluOptions,
    GeluOptions,
    DropoutOptions,
    FlattenOptions,
    ChannelsLastOptions,
    EmbeddingOptions,
    LayerNormOptions,
    AttentionOptions,
    Portable...>
    SpecWith(PortableOps<Portable...>);

using OpSpec = decltype(SpecWith(AllPortableOps()));

/// The size of a window's output along one axis.
constexpr int64_t WindowCount(int64_t in, int64_t kernel, int64_t stride, int64_t padding) {
  return (in + 2 * padding - kernel) / stride + 1;
}

}  // namespace ps::kernels
