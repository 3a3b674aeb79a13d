// Attention without a matrix of scores in memory, after FlashAttention (Dao et al., 2022): scores
// of a tile are computed from queries and keys that lie in shared memory, used, and forgotten. Of
// each row the logarithm of its sum is kept, and the backward pass computes scores again from it:
//
//   forward   s = q k' / sqrt(w),  p = exp(s - log_sum),  y = p v
//   backward  dv = p' dy,  dp = dy v',  ds = p * (dp - delta),  delta = sum of y * dy
//             dq = ds k / sqrt(w),  dk = ds' q / sqrt(w)
//
// A block has a tile of rows, and goes through the others 32 at a time. A warp has kRows of the
// tile's rows: its lanes are the others' rows while scores are computed, and columns of a head
// while they are used. Each sum has one owner and a fixed order.

#include <cmath>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kAttentionThreads = 32 * kWarps;
constexpr int kOthers = 32;  // rows of the other side at a time, one a lane

/// Sizes for heads of up to `width` columns. Shared memory ends at 48 KiB.
template <int width>
struct Sizes {
  static constexpr int kRows = width > 64 ? 2 : 8;  // of a warp
  static constexpr int kTile = kWarps * kRows;      // of a block
  static constexpr int kColumns = width / 32;       // of a lane
};

/// Where the rows of one head lie in x or y, `stride` floats apart.
struct HeadRows {
  int64_t begin;
  int64_t stride;
  int64_t count;
  int width;  // of the head
};

enum class Part : uint8_t { kQueries, kKeys, kValues };

/// Which head of which sample a block works on, and on which tile of its rows. The last tile comes
/// first: with a causal attention it is the longest.
struct Place {
  __device__ Place(const AttentionShape& shape, int64_t tiles, int tile_rows)
      : length(shape.options.length),
        width(shape.options.width),
        head_width(static_cast<int>(shape.head_width)),
        head(blockIdx.x / tiles),
        first((tiles - 1 - blockIdx.x % tiles) * tile_rows),
        sample(head / shape.options.heads),
        column(head % shape.options.heads * head_width) {}

  __device__ HeadRows InX(Part part) const {
    const int64_t stride = 3 * width;
    const int64_t begin = sample * length * stride + static_cast<int64_t>(part) * width + column;
    return {begin, stride, length, head_width};
  }

  __device__ HeadRows InY() const {
    return {sample * length * width + column, width, length, head_width};
  }

  /// In what has a value for each row of each head.
  __device__ int64_t OfRow(int64_t row) const { return head * length + row; }

  const int64_t length;
  const int64_t width;  // of y
  const int head_width;
  const int64_t head;  // counted over the samples
  const int64_t first;
  const int64_t sample;
  const int64_t column;  // of the head in a row of y
};

/// Copies rows [first, first + rows) to shared memory, rounded, with zeros where there are none.
template <Precision precision, int rows, int columns, int pitch>
__device__ void Load(
    const float* from, const HeadRows& at, int64_t first, float (&tile)[rows][pitch]) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += kAttentionThreads) {
    const int row = i / columns;
    const int column = i % columns;
    const bool is_there = first + row < at.count && column < at.width;
    const float* value = from + at.begin + (first + row) * at.stride + column;
    tile[row][column] = is_there ? Rounded<precision>(*value) : 0.0F;
  }
}

/// out[i] = the product of row `first + i` of `rows` with row `lane` of `others`.
template <int width, int count, int n, int m>
__device__ void Products(
    const float (&rows)[n][width],
    const float (&others)[m][width + 1],
    int first,
    int lane,
    float (&out)[count]) {
  for (int i = 0; i < count; ++i) {
    out[i] = 0;
  }
  for (int column = 0; column < width; ++column) {
    const float other = others[lane][column];
    for (int i = 0; i < count; ++i) {
      out[i] += rows[first + i][column] * other;
    }
  }
}

/// sums[i][j] += sum over the lanes l of weights[i] of lane l, rounded, * others[l][lane + 32 j].
template <Precision precision, int count, int columns, int m, int pitch>
__device__ void Accumulate(
    const float (&weights)[count],
    const float (&others)[m][pitch],
    int lane,
    float (&sums)[count][columns]) {
  for (int other = 0; other < kOthers; ++other) {
    float values[columns];
    for (int j = 0; j < columns; ++j) {
      values[j] = others[other][lane + 32 * j];
    }
    for (int i = 0; i < count; ++i) {
      const float weight = Rounded<precision>(__shfl_sync(kAllLanes, weights[i], other));
      for (int j = 0; j < columns; ++j) {
        sums[i][j] += weight * values[j];
      }
    }
  }
}

/// Writes a lane's columns of `count` rows, scaled.
template <int count, int columns>
__device__ void Store(
    const float (&sums)[count][columns],
    float scale,
    const HeadRows& at,
    int64_t first,
    int lane,
    float* to) {
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < columns; ++j) {
      if (first + i < at.count && lane + 32 * j < at.width) {
        to[at.begin + (first + i) * at.stride + lane + 32 * j] = scale * sums[i][j];
      }
    }
  }
}

__device__ float WarpMax(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

__device__ bool IsVisible(const AttentionOptions& o, int64_t query, int64_t key) {
  return query < o.length && key < o.length && (!o.causal || key <= query);
}

/// A block: a tile of queries.
template <int width, Precision precision>
__global__ void __launch_bounds__(kAttentionThreads) AttentionKernel(
    AttentionShape shape, int64_t tiles, const float* x, float* log_sums, float* y) {
  using S = Sizes<width>;
  __shared__ float queries[S::kTile][width];
  __shared__ float keys[kOthers][width + 1];
  __shared__ float values[kOthers][width + 1];
  const AttentionOptions& o = shape.options;
  const Place place(shape, tiles, S::kTile);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int own = static_cast<int>(threadIdx.x) / 32 * S::kRows;  // the warp's first row
  Load<precision, S::kTile, width>(x, place.InX(Part::kQueries), place.first, queries);
  float sums[S::kRows][S::kColumns] = {};
  float largest[S::kRows];
  float total[S::kRows] = {};
  for (float& value : largest) {
    value = -INFINITY;
  }
  const int64_t end =
      o.causal && place.first + S::kTile < o.length ? place.first + S::kTile : o.length;
  for (int64_t key0 = 0; key0 < end; key0 += kOthers) {
    __syncthreads();  // the tile before has been read
    Load<precision, kOthers, width>(x, place.InX(Part::kKeys), key0, keys);
    Load<precision, kOthers, width>(x, place.InX(Part::kValues), key0, values);
    __syncthreads();
    float p[S::kRows];
    Products(queries, keys, own, lane, p);
    for (int i = 0; i < S::kRows; ++i) {
      // Rows behind the last compute something too: their lanes are needed, their sums are not.
      const int64_t query = place.first + own + i;
      const bool is_visible = key0 + lane < o.length && (!o.causal || key0 + lane <= query);
      const float score = is_visible ? shape.scale * p[i] : -INFINITY;
      const float now = fmaxf(largest[i], WarpMax(score));
      const float correction = expf(largest[i] - now);
      p[i] = expf(score - now);
      largest[i] = now;
      total[i] = total[i] * correction + WarpSum(p[i]);
      for (float& sum : sums[i]) {
        sum *= correction;
      }
    }
    Accumulate<precision>(p, values, lane, sums);
  }
  for (int i = 0; i < S::kRows; ++i) {
    const int64_t query = place.first + own + i;
    for (float& sum : sums[i]) {
      sum /= total[i];
    }
    if (lane == 0 && query < o.length) {
      log_sums[place.OfRow(query)] = largest[i] + logf(total[i]);
    }
  }
  Store(sums, 1, place.InY(), place.first + own, lane, y);
}

/// deltas [n, heads, length] = sum of y * dy over a head's columns. A warp a row.
template <Precision precision>
__global__ void AttentionDeltaKernel(
    AttentionShape shape, const float* y, const float* dy, float* deltas) {
  const AttentionOptions& o = shape.options;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t first = FirstElement() / 32;
  const int64_t count = shape.n * o.heads * o.length;
  for (int64_t i = first; i < count; i += ElementStride() / 32) {
    const int64_t head = i / o.length;
    const int64_t token = head / o.heads * o.length + i % o.length;
    const int64_t begin = token * o.width + head % o.heads * shape.head_width;
    float sum = 0;
    for (int64_t j = lane; j < shape.head_width; j += 32) {
      sum += y[begin + j] * Rounded<precision>(dy[begin + j]);
    }
    sum = WarpSum(sum);
    if (lane == 0) {
      deltas[i] = sum;
    }
  }
}

/// A block: a tile of queries, whose gradients it writes.
template <int width, Precision precision>
__global__ void __launch_bounds__(kAttentionThreads) QueryGradientKernel(
    AttentionShape shape,
    int64_t tiles,
    const float* x,
    const float* log_sums,
    const float* deltas,
    const float* dy,
    float* dx) {
  using S = Sizes<width>;
  __shared__ float queries[S::kTile][width];
  __shared__ float gradients[S::kTile][width];
  __shared__ float keys[kOthers][width + 1];
  __shared__ float values[kOthers][width + 1];
  const AttentionOptions& o = shape.options;
  const Place place(shape, tiles, S::kTile);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int own = static_cast<int>(threadIdx.x) / 32 * S::kRows;
  Load<precision, S::kTile, width>(x, place.InX(Part::kQueries), place.first, queries);
  Load<precision, S::kTile, width>(dy, place.InY(), place.first, gradients);
  float sums[S::kRows][S::kColumns] = {};
  const int64_t end =
      o.causal && place.first + S::kTile < o.length ? place.first + S::kTile : o.length;
  for (int64_t key0 = 0; key0 < end; key0 += kOthers) {
    __syncthreads();
    Load<precision, kOthers, width>(x, place.InX(Part::kKeys), key0, keys);
    Load<precision, kOthers, width>(x, place.InX(Part::kValues), key0, values);
    __syncthreads();
    float p[S::kRows];
    float dp[S::kRows];
    Products(queries, keys, own, lane, p);
    Products(gradients, values, own, lane, dp);
    for (int i = 0; i < S::kRows; ++i) {
      const int64_t query = place.first + own + i;
      const int64_t at = place.OfRow(query);
      p[i] = IsVisible(o, query, key0 + lane)
                 ? expf(shape.scale * p[i] - log_sums[at]) * (dp[i] - deltas[at])
                 : 0.0F;
    }
    Accumulate<precision>(p, keys, lane, sums);
  }
  Store(sums, shape.scale, place.InX(Part::kQueries), place.first + own, lane, dx);
}

/// A block: a tile of keys, whose gradients it writes, and those of their values.
template <int width, Precision precision>
__global__ void __launch_bounds__(kAttentionThreads) KeyGradientKernel(
    AttentionShape shape,
    int64_t tiles,
    const float* x,
    const float* log_sums,
    const float* deltas,
    const float* dy,
    float* dx) {
  using S = Sizes<width>;
  __shared__ float keys[S::kTile][width];
  __shared__ float values[S::kTile][width];
  __shared__ float queries[kOthers][width + 1];
  __shared__ float gradients[kOthers][width + 1];
  const AttentionOptions& o = shape.options;
  const Place place(shape, tiles, S::kTile);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int own = static_cast<int>(threadIdx.x) / 32 * S::kRows;
  Load<precision, S::kTile, width>(x, place.InX(Part::kKeys), place.first, keys);
  Load<precision, S::kTile, width>(x, place.InX(Part::kValues), place.first, values);
  float key_sums[S::kRows][S::kColumns] = {};
  float value_sums[S::kRows][S::kColumns] = {};
  const int64_t begin = o.causal ? place.first / kOthers * kOthers : 0;
  for (int64_t query0 = begin; query0 < o.length; query0 += kOthers) {
    __syncthreads();
    Load<precision, kOthers, width>(x, place.InX(Part::kQueries), query0, queries);
    Load<precision, kOthers, width>(dy, place.InY(), query0, gradients);
    __syncthreads();
    const int64_t query = query0 + lane;
    const int64_t at = place.OfRow(query);
    const float log_sum = query < o.length ? log_sums[at] : 0.0F;
    const float delta = query < o.length ? deltas[at] : 0.0F;
    float p[S::kRows];
    float dp[S::kRows];
    Products(keys, queries, own, lane, p);
    Products(values, gradients, own, lane, dp);
    for (int i = 0; i < S::kRows; ++i) {
      const bool is_visible = IsVisible(o, query, place.first + own + i);
      p[i] = is_visible ? expf(shape.scale * p[i] - log_sum) : 0.0F;
      dp[i] = is_visible ? p[i] * (dp[i] - delta) : 0.0F;
    }
    Accumulate<precision>(p, gradients, lane, value_sums);
    Accumulate<precision>(dp, queries, lane, key_sums);
  }
  const int64_t first = place.first + own;
  Store(key_sums, shape.scale, place.InX(Part::kKeys), first, lane, dx);
  Store(value_sums, 1, place.InX(Part::kValues), first, lane, dx);
}

/// Starts a kernel with a block for each tile of rows of each head.
template <int width, typename... Parameters, typename... Arguments>
cudaError_t LaunchTiles(
    cudaStream_t stream,
    const AttentionShape& shape,
    void (*kernel)(AttentionShape, int64_t, Parameters...),
    Arguments... arguments) {
  const int64_t tiles = DivideUp(shape.options.length, Sizes<width>::kTile);
  return Launch(
      stream,
      dim3(static_cast<unsigned>(tiles * shape.n * shape.options.heads)),
      dim3(kAttentionThreads),
      kernel,
      shape,
      tiles,
      arguments...);
}

template <int width, Precision precision>
cudaError_t ForwardOf(
    cudaStream_t stream, const AttentionShape& shape, const float* x, float* log_sums, float* y) {
  return LaunchTiles<width>(stream, shape, &AttentionKernel<width, precision>, x, log_sums, y);
}

template <int width, Precision precision>
cudaError_t BackwardOf(
    cudaStream_t stream, const AttentionShape& shape, const AttentionGradient& g) {
  const cudaError_t error = LaunchTiles<width>(
      stream, shape, &QueryGradientKernel<width, precision>, g.x, g.log_sums, g.deltas, g.dy, g.dx);
  return error == cudaSuccess ? LaunchTiles<width>(
                                    stream,
                                    shape,
                                    &KeyGradientKernel<width, precision>,
                                    g.x,
                                    g.log_sums,
                                    g.deltas,
                                    g.dy,
                                    g.dx)
                              : error;
}

template <Precision precision>
cudaError_t DeltasOf(cudaStream_t stream, const AttentionShape& shape, const AttentionGradient& g) {
  const int64_t rows = shape.n * shape.options.heads * shape.options.length;
  const int64_t blocks = DivideUp(32 * rows, kThreads);
  return Launch(
      stream,
      dim3(static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax)),
      dim3(kThreads),
      &AttentionDeltaKernel<precision>,
      shape,
      g.y,
      g.dy,
      g.deltas);
}

/// What to start for heads of some width.
template <Precision precision>
struct Passes {
  static auto Forward(int64_t head_width) {
    return head_width <= 32   ? &ForwardOf<32, precision>
           : head_width <= 64 ? &ForwardOf<64, precision>
                              : &ForwardOf<kHeadWidthMax, precision>;
  }

  static auto Backward(int64_t head_width) {
    return head_width <= 32   ? &BackwardOf<32, precision>
           : head_width <= 64 ? &BackwardOf<64, precision>
                              : &BackwardOf<kHeadWidthMax, precision>;
  }
};

using InF32 = Passes<Precision::kF32>;
using InBf16 = Passes<Precision::kBf16>;

bool IsBf16(const AttentionShape& shape) {
  return shape.options.precision == Precision::kBf16;
}

}  // namespace

cudaError_t AttentionForward(
    cudaStream_t stream, const AttentionShape& shape, const float* x, float* log_sums, float* y) {
  const auto run =
      IsBf16(shape) ? InBf16::Forward(shape.head_width) : InF32::Forward(shape.head_width);
  return run(stream, shape, x, log_sums, y);
}

cudaError_t AttentionBackward(
    cudaStream_t stream, const AttentionShape& shape, const AttentionGradient& g) {
  const auto deltas = IsBf16(shape) ? &DeltasOf<Precision::kBf16> : &DeltasOf<Precision::kF32>;
  const auto run =
      IsBf16(shape) ? InBf16::Backward(shape.head_width) : InF32::Backward(shape.head_width);
  const cudaError_t error = deltas(stream, shape, g);
  return error == cudaSuccess ? run(stream, shape, g) : error;
}

}  // namespace ps::kernels
