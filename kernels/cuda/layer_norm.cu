// Per row of x [rows, features]:
//
//   forward   y = gamma * normal + beta, normal = (x - mean) * factor,
//             factor = 1 / sqrt(variance + epsilon)
//   backward  dbeta = sum of dy,  dgamma = sum of dy * normal, over the rows
//             dx = factor * (g - mean of g - normal * mean of g * normal), g = dy * gamma
//
// Rows that some threads can keep in registers are read once in each pass: for a row as many
// threads as it has fours, up to a block, and smaller rows side by side in one. Backward the same
// threads add up dgamma and dbeta of their columns. Longer rows are read again instead.

#include <algorithm>
#include <cmath>

#include "kernels/cuda/device/layer_norm_rows.cuh"
#include "kernels/cuda/device/vectors.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

template <int width, int chunks>
__global__ void __launch_bounds__(kThreads) RowNormKernel(LayerNormShape shape, LayerNormOutput f) {
  using Part = RowPart<width, chunks>;
  const float share = 1.0F / static_cast<float>(shape.features);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.y; first < shape.rows;
       first += step) {
    const int64_t row = first + threadIdx.y;
    const int64_t features = row < shape.rows ? shape.features : 0;
    const int64_t at = row * features;
    Part x;
    x.Load(f.x + at, features);
    if (f.side != nullptr) {
      Part side;
      side.Load(f.side + at, features);
      Part::ForColumns(features, [&](int c, int k, int64_t) { x.of[c].of[k] += side.of[c].of[k]; });
      x.Store(f.sum + at, features);
    }
    float sum[1] = {};
    Part::ForColumns(features, [&](int c, int k, int64_t) { sum[0] += x.of[c].of[k]; });
    SumOverRow(sum, 0);
    const float mean = share * sum[0];
    float squares[1] = {};
    Part::ForColumns(features, [&](int c, int k, int64_t) {
      const float centered = x.of[c].of[k] - mean;
      squares[0] += centered * centered;
    });
    SumOverRow(squares, 1);
    const float factor = 1 / sqrtf(share * squares[0] + shape.epsilon);
    Part gamma;
    Part beta;
    gamma.Load(f.gamma, features);
    beta.Load(f.beta, features);
    Part::ForColumns(features, [&](int c, int k, int64_t) {
      float& value = x.of[c].of[k];
      value = gamma.of[c].of[k] * ((value - mean) * factor) + beta.of[c].of[k];
    });
    x.Store(f.y + at, features);
    if (threadIdx.x == 0 && features > 0) {
      f.means[row] = mean;
      f.factors[row] = factor;
    }
  }
}

/// x and dy of a row, which may be none: all zeros.
template <int width, int chunks>
struct RowPair {
  __device__ RowPair(const LayerNormShape& shape, const LayerNormGradient& g, int64_t row)
      : features(row < shape.rows ? shape.features : 0),
        mean(features > 0 ? g.means[row] : 0.0F),
        factor(features > 0 ? g.factors[row] : 0.0F) {
    const int64_t at = row * features;
    x.Load(g.x + at, features);
    dy.Load(g.dy + at, features);
  }

  int64_t features;
  float mean;
  float factor;
  RowPart<width, chunks> x;
  RowPart<width, chunks> dy;
};

/// dx, and into parts [block, 2, features] the sums of dy and dy * normal over some rows. The next
/// row is under way while the sums over one are waited for.
template <int width, int chunks>
__global__ void __launch_bounds__(kThreads)
    RowGradientKernel(LayerNormShape shape, LayerNormGradient g) {
  using Part = RowPart<width, chunks>;
  const float share = 1.0F / static_cast<float>(shape.features);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  const int64_t own = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  Part sums[2] = {};
  int turn = 0;
  RowPair<width, chunks> next(shape, g, own);
  for (int64_t row = own; row - threadIdx.y < shape.rows; row += step) {
    RowPair<width, chunks> pair = next;
    next = RowPair<width, chunks>(shape, g, row + step);
    const int64_t features = pair.features;
    Part gamma;
    gamma.Load(g.gamma, features);
    float of_row[2] = {};  // of g, and of g * normal
    Part::ForColumns(features, [&](int c, int k, int64_t) {
      float& normal = pair.x.of[c].of[k];
      float& value = pair.dy.of[c].of[k];
      normal = (normal - pair.mean) * pair.factor;
      sums[0].of[c].of[k] += value;
      sums[1].of[c].of[k] += value * normal;
      value *= gamma.of[c].of[k];
      of_row[0] += value;
      of_row[1] += value * normal;
    });
    if (g.dx == nullptr) {
      continue;
    }
    SumOverRow(of_row, turn);
    turn = 1 - turn;
    const float sum = share * of_row[0];
    const float projection = share * of_row[1];
    Part::ForColumns(features, [&](int c, int k, int64_t) {
      float& value = pair.dy.of[c].of[k];
      value = pair.factor * (value - sum - pair.x.of[c].of[k] * projection);
    });
    if (g.dx_side != nullptr) {
      Part side;
      side.Load(g.dx_side + row * features, features);
      Part::ForColumns(features, [&](int c, int k, int64_t) {
        float& value = pair.dy.of[c].of[k];
        value = __fadd_rn(value, side.of[c].of[k]);  // not fused with what it is added to
      });
    }
    pair.dy.Store(g.dx + row * features, features);
  }
  if constexpr (chunks == 1) {  // several rows lie side by side
    __shared__ float shared[2 * width][kThreads];
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    PS_UNROLL
    for (int i = 0; i < 2 * width; ++i) {
      shared[i][thread] = sums[i / width].of[0].of[i % width];
    }
    __syncthreads();
    for (unsigned y = 1; threadIdx.y == 0 && y < blockDim.y; ++y) {
      PS_UNROLL
      for (int i = 0; i < 2 * width; ++i) {
        sums[i / width].of[0].of[i % width] += shared[i][y * blockDim.x + threadIdx.x];
      }
    }
  }
  if (threadIdx.y == 0) {
    float* const part = g.scratch + 2 * shape.features * blockIdx.x;
    sums[0].Store(part, shape.features);
    sums[1].Store(part + shape.features, shape.features);
  }
}

/// A warp a row, of any length.
__global__ void LongRowNormKernel(LayerNormShape shape, LayerNormOutput f) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const float share = 1.0F / static_cast<float>(shape.features);
  for (int64_t row = first; row < shape.rows; row += static_cast<int64_t>(gridDim.x) * kWarps) {
    const float* from = f.x + row * shape.features;
    float* to = f.y + row * shape.features;
    if (f.side != nullptr) {
      float* const sums = f.sum + row * shape.features;
      for (int64_t j = lane; j < shape.features; j += 32) {
        sums[j] = from[j] + f.side[row * shape.features + j];
      }
      from = sums;  // each lane reads what it has written
    }
    float sum = 0;
    for (int64_t j = lane; j < shape.features; j += 32) {
      sum += from[j];
    }
    const float mean = share * WarpSum(sum);
    float squares = 0;
    for (int64_t j = lane; j < shape.features; j += 32) {
      squares += (from[j] - mean) * (from[j] - mean);
    }
    const float factor = 1 / sqrtf(share * WarpSum(squares) + shape.epsilon);
    for (int64_t j = lane; j < shape.features; j += 32) {
      to[j] = f.gamma[j] * ((from[j] - mean) * factor) + f.beta[j];
    }
    if (lane == 0) {
      f.means[row] = mean;
      f.factors[row] = factor;
    }
  }
}

/// x without its row's mean and spread.
struct RowNormal {
  __device__ float operator()(int64_t row, int64_t j) const {
    return (x[row * features + j] - means[row]) * factors[row];
  }

  const float* x;
  const float* means;
  const float* factors;
  int64_t features;
};

/// dy, and dy * normal.
struct GradientSums {
  static constexpr int kEach = 2;

  template <int width>
  __device__ const GradientSums& Of(int64_t) const {
    return *this;
  }

  template <int width>
  __device__ void Add(int64_t row, int64_t column, float (&sums)[2][width]) const {
    const int64_t at = row * normal.features + column;
    float values[width];
    float from[width];
    LoadSideBySide(dy + at, values);
    LoadSideBySide(normal.x + at, from);
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      sums[0][i] += values[i];
      sums[1][i] += values[i] * ((from[i] - normal.means[row]) * normal.factors[row]);
    }
  }

  RowNormal normal;
  const float* dy;
};

struct PutGradients {
  __device__ void operator()(int64_t column, const float (&sums)[2]) const {
    dbeta[column] = sums[0];
    dgamma[column] = sums[1];
  }

  float* dbeta;
  float* dgamma;
};

/// A warp a row, of any length.
__global__ void LongRowGradientKernel(int64_t rows, RowNormal normal, LayerNormGradient g) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const float share = 1.0F / static_cast<float>(normal.features);
  for (int64_t row = first; row < rows; row += static_cast<int64_t>(gridDim.x) * kWarps) {
    const int64_t begin = row * normal.features;
    float sum = 0;
    float projection = 0;
    for (int64_t j = lane; j < normal.features; j += 32) {
      const float value = g.dy[begin + j] * g.gamma[j];
      sum += value;
      projection += value * normal(row, j);
    }
    sum = share * WarpSum(sum);
    projection = share * WarpSum(projection);
    for (int64_t j = lane; j < normal.features; j += 32) {
      const float value = g.dy[begin + j] * g.gamma[j];
      const float own = normal.factors[row] * (value - sum - normal(row, j) * projection);
      g.dx[begin + j] = g.dx_side == nullptr ? own : __fadd_rn(own, g.dx_side[begin + j]);
    }
  }
}

dim3 GridOf(int64_t rows) {
  const int64_t blocks = DivideUp(rows, kWarps);
  return dim3(static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax));
}

/// Calls use.operator()<width, chunks>().
template <typename Use>
cudaError_t WithChunks(bool are_fours, int64_t chunks, const Use& use) {
  if (are_fours) {
    return chunks == 1   ? use.template operator()<4, 1>()
           : chunks == 2 ? use.template operator()<4, 2>()
                         : use.template operator()<4, 4>();
  }
  return chunks == 1   ? use.template operator()<1, 1>()
         : chunks == 2 ? use.template operator()<1, 2>()
                       : use.template operator()<1, 4>();
}

cudaError_t LongRowsBackward(
    cudaStream_t stream, const LayerNormShape& shape, const LayerNormGradient& g) {
  const RowNormal normal{g.x, g.means, g.factors, shape.features};
  const cudaError_t error = SumColumns(
      stream,
      GradientSums{normal, g.dy},
      shape.rows,
      shape.features,
      AreFours(shape.features, g.x, g.dy),
      g.scratch,
      PutGradients{g.dbeta, g.dgamma});
  if (error != cudaSuccess || g.dx == nullptr) {
    return error;
  }
  return Launch(
      stream, GridOf(shape.rows), dim3(kThreads), &LongRowGradientKernel, shape.rows, normal, g);
}

}  // namespace

int64_t LayerNormScratch(int64_t rows, int64_t features) {
  int64_t floats = ColumnSumScratch(rows, features);
  for (const int64_t width : {1, 4}) {
    const RowBlock cut = BackwardBlock(rows, features, width);
    floats = std::max(floats, cut.fits ? 2 * features * cut.blocks : 0);
  }
  return floats;
}

cudaError_t LayerNormForward(
    cudaStream_t stream, const LayerNormShape& shape, const LayerNormOutput& f) {
  const bool are_fours = AreFours(shape.features, f.x, f.side, f.gamma, f.beta, f.sum, f.y);
  const RowBlock cut(shape.rows, shape.features, are_fours ? 4 : 1, 1);
  if (shape.rows == 0) {
    return cudaSuccess;
  }
  if (!cut.fits) {
    return Launch(stream, GridOf(shape.rows), dim3(kThreads), &LongRowNormKernel, shape, f);
  }
  return WithChunks(are_fours, cut.chunks, [&]<int width, int chunks>() {
    return Launch(stream, cut.grid, cut.block, &RowNormKernel<width, chunks>, shape, f);
  });
}

cudaError_t LayerNormBackward(
    cudaStream_t stream, const LayerNormShape& shape, const LayerNormGradient& g) {
  const bool are_fours = AreFours(shape.features, g.x, g.gamma, g.dy, g.dx_side, g.dx, g.scratch);
  const RowBlock cut = BackwardBlock(shape.rows, shape.features, are_fours ? 4 : 1);
  if (!cut.fits) {
    return LongRowsBackward(stream, shape, g);
  }
  const cudaError_t error = WithChunks(are_fours, cut.chunks, [&]<int width, int chunks>() {
    return Launch(stream, cut.grid, cut.block, &RowGradientKernel<width, chunks>, shape, g);
  });
  return error == cudaSuccess
             ? SumParts<2>(
                   stream, g.scratch, cut.blocks, shape.features, PutGradients{g.dbeta, g.dgamma})
             : error;
}

}  // namespace ps::kernels
