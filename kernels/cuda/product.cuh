#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"

namespace ps::kernels {

// A tile of a product a[rows, depth] b[depth, columns] of two matrices that need not exist as such,
// so that one loop serves matrices, convolutions and their gradients. While a step of
// kProductDepth is multiplied from shared memory, the threads load the next one into registers.
//
// A factor says what it has, four values at a time. They follow each other along the depth or along
// its lines, which are rows of a and columns of b:
//
//   static constexpr Lies kLies
//   Line AtLine(int64_t line)     of four lines the first, if it lies along them
//   Place AtPlace(int64_t k)      of four depths the first, if it lies along the depth
//   void Advance(Place*)          a step further; if it lies along the depth
//   float4 Load(Line, Place)      0 outside

enum class Lies { kAlongDepth, kAlongLines };

constexpr int kProductDepth = 16;  // of a step; that of a tensor core's instruction

/// How the work is cut: a block of `threads` has a tile of rows x columns. Each thread multiplies
/// each_row x each_column values, or its warp does so by tensor cores.
template <int rows, int columns, int threads, int each_row, int each_column>
struct TileSize {
  static constexpr int kRows = rows;
  static constexpr int kColumns = columns;
  static constexpr int kThreads = threads;
  static constexpr int kEachRow = each_row;
  static constexpr int kEachColumn = each_column;
  // Lanes of a warp, and warps of a block, along each side.
  static constexpr int kLanesAcross = columns / each_column < 8 ? columns / each_column : 8;
  static constexpr int kLanesDown = 32 / kLanesAcross;
  static constexpr int kWarpsAcross = columns / (each_column * kLanesAcross);
  static constexpr int kWarpsDown = threads / 32 / kWarpsAcross;
  static constexpr int kWarpRows = rows / kWarpsDown;
  static constexpr int kWarpColumns = columns / kWarpsAcross;
  static_assert(rows == each_row * kLanesDown * kWarpsDown && each_row % 4 == 0);
  static_assert(columns == each_column * kLanesAcross * kWarpsAcross && each_column % 4 == 0);
  static_assert(kWarpRows % 16 == 0 && kWarpColumns % 16 == 0);
};

using Tile128x128 = TileSize<128, 128, 256, 8, 8>;
using Tile128x64 = TileSize<128, 64, 128, 8, 8>;
using Tile128x32 = TileSize<128, 32, 128, 8, 4>;
using Tile128x16 = TileSize<128, 16, 64, 8, 4>;
using Tile64x64 = TileSize<64, 64, 128, 8, 4>;

/// Blocks of a multiprocessor that registers are to suffice for. Tensor cores wait for memory,
/// which other blocks make up for; multiply-adds rather want the registers.
template <Precision precision, typename Size>
constexpr int kBlocksAtOnce = precision == Precision::kBf16 ? 512 / Size::kThreads : 1;

/// How a step of one factor lies in shared memory, as it does in the factor: a line's depths, or a
/// depth's lines. The pitch is chosen so that threads that read or write together meet different
/// banks, and fours stay aligned. Values are floats or, for tensor cores, pairs of bf16.
template <Lies lies, int lines, bool is_tensor>
struct StepLayout {
  static constexpr bool kIsAlongDepth = lies == Lies::kAlongDepth;
  static constexpr int kInner = (kIsAlongDepth ? kProductDepth : lines) / (is_tensor ? 2 : 1);
  static constexpr int kPitch = kInner + 4;  // words
  static constexpr int kWords = (kIsAlongDepth ? lines : kProductDepth) * kPitch;
};

/// What a thread loads of each step of a factor, by fours.
template <typename Factor, int lines, int threads>
class LoadShare {
 public:
  static constexpr bool kIsAlongDepth = Factor::kLies == Lies::kAlongDepth;
  static constexpr int kFours = (kIsAlongDepth ? kProductDepth : lines) / 4;  // side by side
  static constexpr int kStride = threads / kFours;
  static constexpr int kCount = lines * kProductDepth / 4 / threads;
  static_assert(threads % kFours == 0 && kCount * kStride * kFours * 4 == lines * kProductDepth);

  __device__ LoadShare(const Factor& factor, int64_t first_line, int64_t first_depth)
      : factor_(factor), depth_(first_depth) {
    if constexpr (kIsAlongDepth) {
      place_ = factor_.AtPlace(first_depth + 4 * Four());
      PS_UNROLL
      for (int i = 0; i < kCount; ++i) {
        lines_[i] = factor_.AtLine(first_line + At(i));
      }
    } else {
      lines_[0] = factor_.AtLine(first_line + 4 * Four());
    }
  }

  /// Loads the next step.
  __device__ void Load() {
    PS_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kIsAlongDepth) {
        values_[i] = factor_.Load(lines_[i], place_);
      } else {
        values_[i] = factor_.Load(lines_[0], factor_.AtPlace(depth_ + At(i)));
      }
    }
    if constexpr (kIsAlongDepth) {
      factor_.Advance(&place_);
    }
    depth_ += kProductDepth;
  }

  /// Puts what was loaded into shared memory.
  template <Precision precision, bool is_tensor>
  __device__ void Put(uint32_t* step) const {
    using Layout = StepLayout<Factor::kLies, lines, is_tensor>;
    PS_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const float4& v = values_[i];
      uint32_t* const to = step + At(i) * Layout::kPitch + Four() * (is_tensor ? 2 : 4);
      if constexpr (is_tensor) {
        *reinterpret_cast<uint2*>(to) = {ToBf16Pair(v.x, v.y), ToBf16Pair(v.z, v.w)};
      } else {
        *reinterpret_cast<float4*>(to) = {
            Rounded<precision>(v.x),
            Rounded<precision>(v.y),
            Rounded<precision>(v.z),
            Rounded<precision>(v.w)};
      }
    }
  }

 private:
  __device__ static int Four() { return static_cast<int>(threadIdx.x) % kFours; }

  __device__ static int At(int i) { return static_cast<int>(threadIdx.x) / kFours + i * kStride; }

  const Factor& factor_;
  typename Factor::Line lines_[kIsAlongDepth ? kCount : 1];
  typename Factor::Place place_{};
  int64_t depth_;
  float4 values_[kCount];
};

/// Which of the tile's lines the `i`-th of a thread is. `unit` of `units` is the thread's place
/// along that side. Those of one i follow each other, by fours where they are loaded so.
template <Lies lies, int units>
__device__ int LineOf(int unit, int i) {
  return lies == Lies::kAlongDepth ? unit + i * units : 4 * (unit + i / 4 * units) + i % 4;
}

/// Depths that a thread multiplies at a time: few, since their values take registers.
constexpr int kFmaDepth = 2;

/// The thread's lines at kFmaDepth depths from `depth` on.
template <Lies lies, int lines, int units, int each>
__device__ void LoadLines(
    const float* step, int unit, int depth, float (&values)[each][kFmaDepth]) {
  constexpr int kPitch = StepLayout<lies, lines, false>::kPitch;
  if constexpr (lies == Lies::kAlongDepth) {
    PS_UNROLL
    for (int i = 0; i < each; ++i) {
      const float2 v =
          *reinterpret_cast<const float2*>(step + LineOf<lies, units>(unit, i) * kPitch + depth);
      values[i][0] = v.x;
      values[i][1] = v.y;
    }
  } else {
    PS_UNROLL
    for (int k = 0; k < kFmaDepth; ++k) {
      PS_UNROLL
      for (int i = 0; i < each; i += 4) {
        const float4 v = *reinterpret_cast<const float4*>(
            step + (depth + k) * kPitch + LineOf<lies, units>(unit, i));
        values[i][k] = v.x;
        values[i + 1][k] = v.y;
        values[i + 2][k] = v.z;
        values[i + 3][k] = v.w;
      }
    }
  }
}

/// A thread's part of a tile by fused multiply-adds.
template <typename Size, Lies lies_a, Lies lies_b>
class FmaPart {
 public:
  static constexpr bool kIsTensor = false;

  __device__ void Multiply(const uint32_t* step_a, const uint32_t* step_b) {
    // Where the sums take most registers, no factor is loaded ahead of its turn.
    constexpr int kUnrolled = Size::kEachRow * Size::kEachColumn >= 64 ? 1 : kProductDepth;
    PS_UNROLL_BY(kUnrolled)
    for (int depth = 0; depth < kProductDepth; depth += kFmaDepth) {
      float a[Size::kEachRow][kFmaDepth];
      float b[Size::kEachColumn][kFmaDepth];
      LoadLines<lies_a, Size::kRows, kDown>(
          reinterpret_cast<const float*>(step_a), Down(), depth, a);
      LoadLines<lies_b, Size::kColumns, kAcross>(
          reinterpret_cast<const float*>(step_b), Across(), depth, b);
      PS_UNROLL
      for (int k = 0; k < kFmaDepth; ++k) {
        PS_UNROLL
        for (int i = 0; i < Size::kEachRow; ++i) {
          PS_UNROLL
          for (int j = 0; j < Size::kEachColumn; ++j) {
            sums_[i][j] += a[i][k] * b[j][k];
          }
        }
      }
    }
  }

  /// For each row that the thread has a part of calls rows(row), and what that returns with
  /// (column, sum) for each column; both in the tile.
  template <typename Rows>
  __device__ void ForRows(const Rows& rows) const {
    PS_UNROLL
    for (int i = 0; i < Size::kEachRow; ++i) {
      const auto put = rows(LineOf<lies_a, kDown>(Down(), i));
      PS_UNROLL
      for (int j = 0; j < Size::kEachColumn; ++j) {
        put(LineOf<lies_b, kAcross>(Across(), j), sums_[i][j]);
      }
    }
  }

 private:
  static constexpr int kDown = Size::kLanesDown * Size::kWarpsDown;
  static constexpr int kAcross = Size::kLanesAcross * Size::kWarpsAcross;

  __device__ static int Down() {
    const int thread = static_cast<int>(threadIdx.x);
    return thread / 32 / Size::kWarpsAcross * Size::kLanesDown + thread % 32 / Size::kLanesAcross;
  }

  __device__ static int Across() {
    const int thread = static_cast<int>(threadIdx.x);
    return thread / 32 % Size::kWarpsAcross * Size::kLanesAcross + thread % Size::kLanesAcross;
  }

  float sums_[Size::kEachRow][Size::kEachColumn] = {};
};

/// A warp's part of a tile by tensor cores, of factors that are rounded to bf16. Requires:
/// kHasMmaBf16.
template <typename Size, Lies lies_a, Lies lies_b>
class TensorPart {
 public:
  static constexpr bool kIsTensor = true;

  __device__ void Multiply(const uint32_t* step_a, const uint32_t* step_b) {
    constexpr int kPitchA = StepLayout<lies_a, Size::kRows, true>::kPitch;
    constexpr int kPitchB = StepLayout<lies_b, Size::kColumns, true>::kPitch;
    uint32_t a[kDown][4];
    PS_UNROLL
    for (int i = 0; i < kDown; ++i) {
      LoadSquares<lies_a == Lies::kAlongLines, true>(step_a, kPitchA, FirstRow() + 16 * i, a[i]);
    }
    PS_UNROLL
    for (int j = 0; j < kAcross; j += 2) {
      uint32_t b[4];  // of two times eight columns
      LoadSquares<lies_b == Lies::kAlongLines, false>(step_b, kPitchB, FirstColumn() + 8 * j, b);
      PS_UNROLL
      for (int i = 0; i < kDown; ++i) {
        MmaBf16(sums_[i][j], a[i], {b[0], b[1]});
        MmaBf16(sums_[i][j + 1], a[i], {b[2], b[3]});
      }
    }
  }

  template <typename Rows>
  __device__ void ForRows(const Rows& rows) const {
    PS_UNROLL
    for (int i = 0; i < kDown; ++i) {
      PS_UNROLL
      for (int half = 0; half < 2; ++half) {
        const auto put = rows(FirstRow() + 16 * i + 8 * half + LaneGroup());
        PS_UNROLL
        for (int j = 0; j < kAcross; ++j) {
          const int column = FirstColumn() + 8 * j + 2 * LaneMember();
          put(column, sums_[i][j][2 * half]);
          put(column + 1, sums_[i][j][2 * half + 1]);
        }
      }
    }
  }

 private:
  static constexpr int kDown = Size::kWarpRows / 16;
  static constexpr int kAcross = Size::kWarpColumns / 8;

  __device__ static int FirstRow() {
    return static_cast<int>(threadIdx.x) / 32 / Size::kWarpsAcross * Size::kWarpRows;
  }

  __device__ static int FirstColumn() {
    return static_cast<int>(threadIdx.x) / 32 % Size::kWarpsAcross * Size::kWarpColumns;
  }

  float sums_[kDown][kAcross][4] = {};
};

/// Calls store(row), and what that returns with (column, sum over k in [depth_begin, depth_end) of
/// a(row,k) * b(k,column)), for the tile that begins at first_row and first_column, also for rows
/// and columns that are outside. A factor is 0 from the end of the depth on. All threads of the
/// block call it once.
template <Precision precision, typename Size, typename Part, typename A, typename B, typename Store>
__device__ void ProductBy(
    int64_t first_row,
    int64_t first_column,
    int64_t depth_begin,
    int64_t depth_end,
    const A& a,
    const B& b,
    const Store& store) {
  constexpr bool kIsTensor = Part::kIsTensor;
  alignas(16) __shared__ uint32_t steps_a[2][StepLayout<A::kLies, Size::kRows, kIsTensor>::kWords];
  alignas(16)
      __shared__ uint32_t steps_b[2][StepLayout<B::kLies, Size::kColumns, kIsTensor>::kWords];
  LoadShare<A, Size::kRows, Size::kThreads> of_a(a, first_row, depth_begin);
  LoadShare<B, Size::kColumns, Size::kThreads> of_b(b, first_column, depth_begin);
  Part part;
  const auto put = [&](int to) {
    of_a.template Put<precision, kIsTensor>(steps_a[to]);
    of_b.template Put<precision, kIsTensor>(steps_b[to]);
  };
  if (depth_begin < depth_end) {
    of_a.Load();
    of_b.Load();
    put(0);
  }
  __syncthreads();
  int now = 0;
  for (int64_t k = depth_begin; k < depth_end; k += kProductDepth) {
    const bool has_next = k + kProductDepth < depth_end;
    if (has_next) {
      of_a.Load();
      of_b.Load();
    }
    part.Multiply(steps_a[now], steps_b[now]);
    now = 1 - now;
    if (has_next) {
      put(now);
    }
    __syncthreads();
  }
  part.ForRows([&](int row) {
    const auto put = store(first_row + row);
    return [put, first_column](int column, float sum) { put(first_column + column, sum); };
  });
}

/// By tensor cores for bf16, where the device has them.
template <Precision precision, typename Size, typename A, typename B, typename Store>
__device__ void Product(
    int64_t first_row,
    int64_t first_column,
    int64_t depth_begin,
    int64_t depth_end,
    const A& a,
    const B& b,
    const Store& store) {
  if constexpr (precision == Precision::kBf16 && kHasMmaBf16) {
    ProductBy<precision, Size, TensorPart<Size, A::kLies, B::kLies>>(
        first_row, first_column, depth_begin, depth_end, a, b, store);
  } else {
    ProductBy<precision, Size, FmaPart<Size, A::kLies, B::kLies>>(
        first_row, first_column, depth_begin, depth_end, a, b, store);
  }
}

}  // namespace ps::kernels
