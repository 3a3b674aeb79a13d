#include "kernels/cuda/mma.cuh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/dense_factors.cuh"
#include "kernels/cuda/product.cuh"
#include "ps/base/random.h"

// Tensor cores: the fragments of the product's instruction, the one that loads them, and tiles of
// products that are made of both.

namespace ps::kernels {
namespace {

using cuda_emulation::RunGrid;
using cuda_emulation::TakeBankConflicts;
using cuda_emulation::ThreadOrder;
using testing::HasSubstr;

struct Matrix {
  Matrix(int64_t row_count, int64_t column_count)
      : rows(row_count), columns(column_count), values(static_cast<size_t>(rows * columns)) {}

  /// Values that bf16 holds, whose products and sums of some hundred are exact in f32.
  static Matrix Random(int64_t rows, int64_t columns, uint64_t seed) {
    Matrix m(rows, columns);
    for (size_t i = 0; i < m.values.size(); ++i) {
      m.values[i] = static_cast<float>(static_cast<int64_t>(Mix64(seed ^ i) % 255) - 127) / 8;
    }
    return m;
  }

  static Matrix Identity(int64_t rows, int64_t columns) {
    Matrix m(rows, columns);
    for (int64_t i = 0; i < rows && i < columns; ++i) {
      m.At(i, i) = 1;
    }
    return m;
  }

  float& At(int64_t row, int64_t column) {
    return values[static_cast<size_t>(row * columns + column)];
  }

  float At(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }

  Matrix Times(const Matrix& b) const {
    Matrix c(rows, b.columns);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < b.columns; ++j) {
        for (int64_t k = 0; k < columns; ++k) {
          c.At(i, j) += At(i, k) * b.At(k, j);
        }
      }
    }
    return c;
  }

  int64_t rows;
  int64_t columns;
  std::vector<float> values;
};

/// d += a b by one instruction, with the fragments as the manual of PTX has them.
std::string Multiply(const Matrix& a, const Matrix& b, Matrix* d, ThreadOrder order) {
  return RunGrid(1, 32, order, [&] {
    const int group = static_cast<int>(threadIdx.x) / 4;
    const int member = static_cast<int>(threadIdx.x) % 4;
    uint32_t from_a[4];
    for (int i = 0; i < 4; ++i) {
      const int row = i % 2 == 0 ? group : group + 8;
      const int k = 2 * member + (i < 2 ? 0 : 8);
      from_a[i] = ToBf16Pair(a.At(row, k), a.At(row, k + 1));
    }
    uint32_t from_b[2];
    for (int i = 0; i < 2; ++i) {
      const int k = 2 * member + 8 * i;
      from_b[i] = ToBf16Pair(b.At(k, group), b.At(k + 1, group));
    }
    float sums[4];
    const auto sum_at = [&](int i) -> float& {
      return d->At(i < 2 ? group : group + 8, 2 * member + i % 2);
    };
    for (int i = 0; i < 4; ++i) {
      sums[i] = sum_at(i);
    }
    MmaBf16(sums, from_a, from_b);
    for (int i = 0; i < 4; ++i) {
      sum_at(i) = sums[i];
    }
  });
}

TEST(MmaTest, FragmentsLieAsTheInstructionHasThem) {
  const Matrix a = Matrix::Random(16, 16, 1);
  const Matrix b = Matrix::Random(16, 8, 2);
  for (const ThreadOrder order : {ThreadOrder::kAscending, ThreadOrder::kDescending}) {
    Matrix d(16, 8);
    EXPECT_EQ(Multiply(Matrix::Identity(16, 16), b, &d, order), "");
    EXPECT_EQ(d.values, b.values);
    d = Matrix(16, 8);
    EXPECT_EQ(Multiply(a, Matrix::Identity(16, 8), &d, order), "");
    EXPECT_EQ(d.values, a.Times(Matrix::Identity(16, 8)).values);
    d = Matrix(16, 8);
    EXPECT_EQ(Multiply(a, b, &d, order), "");
    EXPECT_EQ(d.values, a.Times(b).values);
  }
}

TEST(MmaTest, SumsAreAddedTo) {
  const Matrix a = Matrix::Random(16, 16, 3);
  const Matrix b = Matrix::Random(16, 8, 4);
  Matrix d = Matrix::Random(16, 8, 5);
  Matrix expected = a.Times(b);
  for (size_t i = 0; i < d.values.size(); ++i) {
    expected.values[i] += d.values[i];
  }
  EXPECT_EQ(Multiply(a, b, &d, ThreadOrder::kAscending), "");
  EXPECT_EQ(d.values, expected.values);
}

TEST(MmaTest, ALaneThatIsMissingIsFound) {
  const std::string fault = RunGrid(1, 32, ThreadOrder::kAscending, [] {
    float d[4] = {};
    const uint32_t a[4] = {};
    const uint32_t b[2] = {};
    if (threadIdx.x != 5) {
      MmaBf16(d, a, b);
    }
  });
  EXPECT_THAT(fault, HasSubstr("divergence"));
  EXPECT_THAT(fault, HasSubstr("but thread 5 has ended"));
}

/// Four squares, whose values say where they are.
struct Squares {
  Squares() {
    for (int i = 0; i < 256; ++i) {
      values[i / 64][i / 8 % 8][i % 8] = static_cast<uint16_t>(i);
    }
  }

  alignas(16) uint16_t values[4][8][8];
};

/// With the fragments as the manual of PTX has them.
template <bool is_transposed>
void ExpectSquares(ThreadOrder order) {
  const Squares squares;
  std::vector<std::vector<uint32_t>> found(32);
  const std::string fault = RunGrid(1, 32, order, [&] {
    uint32_t registers[4];
    LoadMatrices<is_transposed>(squares.values[threadIdx.x / 8][threadIdx.x % 8], registers);
    found[threadIdx.x].assign(registers, registers + 4);
  });
  EXPECT_EQ(fault, "");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t square = 0; square < 4; ++square) {
      const uint32_t one = lane / 4;
      const uint32_t two = lane % 4 * 2;
      const uint32_t first = 64 * square + (is_transposed ? 8 * two + one : 8 * one + two);
      const uint32_t second = first + (is_transposed ? 8 : 1);
      EXPECT_EQ(found[lane][square], first | second << 16U) << lane << " " << square;
    }
  }
}

TEST(LoadMatricesTest, EachLaneGetsItsPartOfEachSquare) {
  for (const ThreadOrder order : {ThreadOrder::kAscending, ThreadOrder::kDescending}) {
    ExpectSquares<false>(order);
    ExpectSquares<true>(order);
  }
}

TEST(LoadMatricesTest, MisalignedRowsAndMissingLanesAreFound) {
  const Squares squares;
  uint32_t registers[4];
  EXPECT_THAT(
      RunGrid(
          1,
          32,
          ThreadOrder::kAscending,
          [&] { LoadMatrices<false>(&squares.values[0][0][threadIdx.x == 7 ? 4 : 0], registers); }),
      HasSubstr("thread 7: ldmatrix"));
  EXPECT_THAT(
      RunGrid(
          1,
          32,
          ThreadOrder::kAscending,
          [&] {
            if (threadIdx.x != 5) {
              LoadMatrices<false>(squares.values[0], registers);
            }
          }),
      HasSubstr("but thread 5 has ended"));
}

/// The sum of what all lanes load of rows that they write first.
uint32_t SumOfOwnRows(ThreadOrder order, bool has_barrier) {
  Squares squares;
  uint32_t sum = 0;
  const std::string fault = RunGrid(1, 32, order, [&] {
    const unsigned other = 31 - threadIdx.x;
    squares.values[other / 8][other % 8][0] = 1000;
    if (has_barrier) {
      __syncwarp();
    }
    uint32_t registers[4];
    LoadMatrices<false>(squares.values[threadIdx.x / 8][threadIdx.x % 8], registers);
    for (const uint32_t value : registers) {
      sum += value & 0xffffU;
    }
  });
  EXPECT_EQ(fault, "");
  return sum;
}

TEST(LoadMatricesTest, AMissingBarrierIsSeen) {
  for (const ThreadOrder order : {ThreadOrder::kAscending, ThreadOrder::kDescending}) {
    EXPECT_NE(SumOfOwnRows(order, false), SumOfOwnRows(order, true));
  }
}

/// Conflicts of one load of rows that are `units` apart, swizzled or not.
template <int units>
uint64_t Conflicts(bool is_swizzled) {
  alignas(128) static uint4 memory[32 * units];
  const SwizzledTile<uint4, units> tile{memory};
  TakeBankConflicts();
  const std::string fault = RunGrid(1, 32, ThreadOrder::kAscending, [&] {
    uint32_t registers[4];
    const auto row = static_cast<int>(threadIdx.x);
    LoadMatrices<false>(is_swizzled ? tile.At(row, 1) : memory + row * units + 1, registers);
  });
  EXPECT_EQ(fault, "");
  return TakeBankConflicts();
}

TEST(LoadMatricesTest, RowsOfASwizzledTileLieInDifferentBanks) {
  EXPECT_EQ(Conflicts<4>(true) + Conflicts<8>(true) + Conflicts<16>(true), 0U);
  EXPECT_EQ(Conflicts<8>(false), 4 * 7U) << "all eight of a square in the same";
}

/// A matrix whose rows are lines of a factor, and its transpose in memory.
struct Lines {
  explicit Lines(const Matrix& m)
      : rows(m.rows), depth(m.columns), along_depth(m.values), along_lines(m.values.size()) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t k = 0; k < depth; ++k) {
        along_lines[static_cast<size_t>(k * rows + row)] = m.At(row, k);
      }
    }
  }

  template <typename Factor>
  Factor As() const {
    if constexpr (std::is_same_v<Factor, AlongDepth>) {
      return PitchedAlongDepth(along_depth.data(), rows, depth, depth);
    } else {
      return PitchedAlongLines(along_lines.data(), rows, depth, rows);
    }
  }

  int64_t rows;
  int64_t depth;
  std::vector<float> along_depth;
  std::vector<float> along_lines;
};

struct ProductSize {
  int64_t rows, depth, columns;
};

template <typename Size, typename A, typename B>
void ExpectProduct(const ProductSize& size) {
  Matrix a = Matrix::Random(size.rows, size.depth, 6);
  const Matrix b = Matrix::Random(size.columns, size.depth, 7);
  Matrix transposed(size.depth, size.columns);
  for (int64_t k = 0; k < size.depth; ++k) {
    for (int64_t column = 0; column < size.columns; ++column) {
      transposed.At(k, column) = b.At(column, k);
    }
  }
  const Matrix expected = a.Times(transposed);
  for (float& value : a.values) {
    value *= 1 + 0x1p-10F;  // bf16 does not hold it and rounds it away
  }
  const Lines of_a(a);
  const Lines of_b(b);
  for (const bool is_tensor : {true, false}) {
    Matrix c(size.rows, size.columns);
    const auto store = [&](int64_t row) {
      return [&c, &size, row](int64_t column, float sum) {
        if (row < size.rows && column < size.columns) {
          c.At(row, column) = sum;
        }
      };
    };
    using Store = decltype(store);
    constexpr Precision kBf16 = Precision::kBf16;
    const auto run =
        is_tensor ? &ProductBy<kBf16, Size, TensorPart<Size, A::kLies, B::kLies>, A, B, Store>
                  : &ProductBy<kBf16, Size, FmaPart<Size, A::kLies, B::kLies>, A, B, Store>;
    const dim3 grid(
        static_cast<unsigned>(DivideUp(size.rows, Size::kRows)),
        static_cast<unsigned>(DivideUp(size.columns, Size::kColumns)));
    const std::string fault = RunGrid(grid, Size::kThreads, ThreadOrder::kDescending, [&] {
      run(int64_t{blockIdx.x} * Size::kRows,
          int64_t{blockIdx.y} * Size::kColumns,
          0,
          size.depth,
          of_a.As<A>(),
          of_b.As<B>(),
          store);
    });
    EXPECT_EQ(fault, "");
    EXPECT_EQ(c.values, expected.values) << is_tensor << " " << size.rows << " " << size.depth;
  }
}

template <typename Size>
void ExpectProducts() {
  for (const ProductSize size :
       {ProductSize{1, 1, 1}, {65, 33, 9}, {132, 20, 12}, {17, 31, 131}, {64, 100, 64}}) {
    ExpectProduct<Size, AlongDepth, AlongDepth>(size);
    ExpectProduct<Size, AlongDepth, AlongLines>(size);
    ExpectProduct<Size, AlongLines, AlongDepth>(size);
    ExpectProduct<Size, AlongLines, AlongLines>(size);
  }
}

/// By tensor cores, then by what devices without them take.
TEST(ProductTest, EveryTileMultipliesRoundedFactors) {
  ExpectProducts<Tile64x64>();
  ExpectProducts<Tile128x16>();
  ExpectProducts<Tile128x32>();
  ExpectProducts<Tile128x64>();
  ExpectProducts<Tile128x128>();
}

}  // namespace
}  // namespace ps::kernels
