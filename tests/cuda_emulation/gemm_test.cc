#include "kernels/cuda/gemm/gemm.h"

#include <cublasLt.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/gemm/gemm_choices.h"
#include "kernels/cuda/gemm/gemm_trial.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/kernels/op_runner.h"

// Products of matrices: how they lie in memory, and which of cuBLASLt's algorithms they take.

namespace ps::kernels::test {
namespace {

using cuda_emulation::CublasAlgorithm;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kSeed = 31;

float FromBf16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16U);
}

/// Rounded to the nearest, ties to even. Requires: not NaN.
uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

/// A matrix in device memory, with NaN in its gaps. On an imaginary device the host may read it.
class StoredMatrix {
 public:
  /// `values` are dense; nullptr: all NaN. `offset`: where it begins, in values.
  StoredMatrix(
      Backend* backend,
      int64_t rows,
      int64_t columns,
      int64_t pitch,
      bool is_bf16,
      const std::vector<float>* values,
      size_t offset)
      : columns_(columns),
        pitch_(pitch),
        is_bf16_(is_bf16),
        offset_(offset),
        memory_(backend->AllocateDevice((static_cast<size_t>(rows * pitch) + offset) * 4).value()) {
    for (int64_t i = 0; values != nullptr && i < rows * columns; ++i) {
      const float value = (*values)[static_cast<size_t>(i)];
      const int64_t at = i / columns * pitch + i % columns;
      if (is_bf16) {
        static_cast<uint16_t*>(data())[at] = ToBf16(value);
      } else {
        static_cast<float*>(data())[at] = value;
      }
    }
  }

  void* data() const { return memory_->data() + offset_ * (is_bf16_ ? 2 : 4); }

  /// At [row, column], of which a column may be in the gap.
  float At(int64_t row, int64_t column) const {
    const int64_t at = row * pitch_ + column;
    return is_bf16_ ? FromBf16(static_cast<const uint16_t*>(data())[at])
                    : static_cast<const float*>(data())[at];
  }

  bool IsGapUntouched(int64_t rows) const {
    bool is = true;
    for (int64_t row = 0; row + 1 < rows; ++row) {
      for (int64_t column = columns_; column < pitch_; ++column) {
        is = is && std::isnan(At(row, column));
      }
    }
    return is;
  }

 private:
  const int64_t columns_;
  const int64_t pitch_;
  const bool is_bf16_;
  const size_t offset_;
  const std::unique_ptr<Memory> memory_;
};

/// Where operands begin, in values.
struct Offsets {
  size_t a = 0;
  size_t b = 0;
  size_t c = 0;
  size_t bias = 0;
};

class GemmTest : public testing::Test {
 protected:
  GemmTest() {
    cuda_emulation::SetComputeCapability(8, 0);
    backend_ = MakeCudaBackend(0, GemmKind::kOwn).value();
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    cuda_emulation::TakeCublasProducts();
  }

  ~GemmTest() override {
    cudaStreamDestroy(stream_);
    cuda_emulation::SetComputeCapability(7, 5);
    cuda_emulation::SetCublasAlgorithms({});
    EXPECT_EQ(cuda_emulation::TakeFailure(), "");
  }

  /// Normalised error of the product, by `gemm` or, with nullptr, by the folder's own kernel.
  double ErrorOf(Gemm* gemm, const GemmShape& shape, const Offsets& offsets = {}) {
    const bool is_bf16 = shape.precision == Precision::kBf16;
    std::vector<float> a = NormalValues(shape.m * shape.k, kSeed);
    std::vector<float> b = NormalValues(shape.k * shape.n, kSeed + 1);
    std::vector<float> bias = NormalValues(shape.n, kSeed + 2);
    const StoredMatrix in_a(
        backend_.get(),
        shape.rows_a(),
        shape.columns_a(),
        shape.pitch_a(),
        shape.bf16_a,
        &a,
        offsets.a);
    const StoredMatrix in_b(
        backend_.get(),
        shape.rows_b(),
        shape.columns_b(),
        shape.pitch_b(),
        shape.bf16_b,
        &b,
        offsets.b);
    const StoredMatrix in_bias(backend_.get(), 1, shape.n, shape.n, false, &bias, offsets.bias);
    const StoredMatrix out(
        backend_.get(), shape.m, shape.n, shape.pitch_c(), shape.bf16_c, nullptr, offsets.c);
    const auto* const bias_data = static_cast<const float*>(in_bias.data());
    if (gemm == nullptr) {
      const auto* const a_data = static_cast<const float*>(in_a.data());
      const auto* const b_data = static_cast<const float*>(in_b.data());
      EXPECT_EQ(TiledGemm(stream_, shape, a_data, b_data, bias_data, out.data()), cudaSuccess);
    } else {
      const Status prepared = gemm->Prepare(stream_, shape);
      EXPECT_TRUE(prepared.ok()) << prepared;
      cuda_emulation::TakeCublasProducts();
      const Status run =
          gemm->Run(stream_, shape, in_a.data(), in_b.data(), bias_data, out.data(), false);
      EXPECT_TRUE(run.ok()) << run;
    }
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    for (std::vector<float>* values : {&a, &b}) {
      for (float& value : *values) {
        value = is_bf16 ? FromBf16(ToBf16(value)) : value;
      }
    }
    std::vector<float> actual;
    Values expected;
    for (int64_t row = 0; row < shape.m; ++row) {
      for (int64_t column = 0; column < shape.n; ++column) {
        double sum = shape.bias ? static_cast<double>(bias[static_cast<size_t>(column)]) : 0.0;
        for (int64_t k = 0; k < shape.k; ++k) {
          const int64_t at_a = shape.transpose_a ? k * shape.m + row : row * shape.k + k;
          const int64_t at_b = shape.transpose_b ? column * shape.k + k : k * shape.n + column;
          sum += static_cast<double>(a[static_cast<size_t>(at_a)]) *
                 static_cast<double>(b[static_cast<size_t>(at_b)]);
        }
        actual.push_back(out.At(row, column));
        expected.push_back(shape.activation == Activation::kRelu ? std::max(sum, 0.0) : sum);
      }
    }
    EXPECT_TRUE(out.IsGapUntouched(shape.m));
    return NormalisedError(actual, expected);
  }

  std::unique_ptr<Gemm> Make(GemmChoices* choices) { return MakeCublasGemm(0, choices).value(); }

  /// Places of the algorithms that a trial of that product runs, in order.
  std::vector<int> TrialOf(const std::vector<CublasAlgorithm>& algorithms) {
    cuda_emulation::SetCublasAlgorithms(algorithms);
    GemmChoices choices(true);
    const std::unique_ptr<Gemm> gemm = Make(&choices);
    cuda_emulation::TakeCublasProducts();
    EXPECT_TRUE(gemm->Prepare(stream_, kShape).ok());
    std::vector<int> trial = cuda_emulation::TakeCublasProducts();
    ErrorOf(gemm.get(), kShape);
    taken_ = cuda_emulation::TakeCublasProducts().at(0);
    return trial;
  }

  static constexpr GemmShape kShape{.m = 8, .n = 12, .k = 16};

  std::unique_ptr<Backend> backend_;
  cudaStream_t stream_ = nullptr;
  int taken_ = -1;  // by the last TrialOf
};

constexpr double kF32 = 1e-11;
constexpr double kBf16Result = 1e-5;

/// Every layout and type, by cuBLASLt and by our own kernel, which has no factors in bf16.
TEST_F(GemmTest, RowsMayBeApartAndMatricesInBf16) {
  GemmChoices choices(false);
  const std::unique_ptr<Gemm> gemm = Make(&choices);
  for (int bits = 0; bits < 64; ++bits) {
    GemmShape shape{.m = 9, .n = 11, .k = 5};
    shape.transpose_a = (bits & 1) != 0;
    shape.transpose_b = (bits & 2) != 0;
    shape.precision = (bits & 4) != 0 ? Precision::kBf16 : Precision::kF32;
    shape.bf16_c = shape.precision == Precision::kBf16 && (bits & 8) != 0;
    shape.bias = (bits & 16) != 0;
    shape.activation = shape.bias ? Activation::kRelu : Activation::kNone;
    if ((bits & 32) != 0) {
      shape.lda = shape.columns_a() + 3;
      shape.ldb = shape.columns_b() + 2;
      shape.ldc = shape.n + 5;
    }
    const double most = shape.bf16_c ? kBf16Result : kF32;
    EXPECT_LE(ErrorOf(gemm.get(), shape), most) << bits;
    EXPECT_LE(ErrorOf(nullptr, shape), most) << bits << " own";
    if (shape.precision == Precision::kBf16) {
      shape.bf16_a = true;
      EXPECT_LE(ErrorOf(gemm.get(), shape), most) << bits << " a";
      shape.bf16_b = true;
      EXPECT_LE(ErrorOf(gemm.get(), shape), most) << bits << " a and b";
    }
  }
}

TEST_F(GemmTest, FactorsInBf16NeedTensorCores) {
  cuda_emulation::SetComputeCapability(7, 5);
  GemmChoices choices(false);
  const std::unique_ptr<Gemm> gemm = Make(&choices);
  GemmShape shape = kShape;
  shape.precision = Precision::kBf16;
  EXPECT_FALSE(gemm->Takes(Precision::kBf16));
  EXPECT_LE(ErrorOf(gemm.get(), shape), kF32);
  shape.bf16_a = true;
  EXPECT_EQ(gemm->Prepare(stream_, shape).code(), StatusCode::kUnsupported);
}

/// The algorithm in front wants more than the pointers may have.
TEST_F(GemmTest, WhichAlgorithmRunsIsDecidedByWhereTheOperandsAre) {
  cuda_emulation::SetCublasAlgorithms({{.alignment_bytes = 16}, {}});
  GemmChoices choices(false);
  const std::unique_ptr<Gemm> gemm = Make(&choices);
  GemmShape shape = kShape;
  shape.bias = true;
  const auto algorithm_at = [&](const Offsets& offsets) {
    EXPECT_LE(ErrorOf(gemm.get(), shape, offsets), kF32);
    return cuda_emulation::TakeCublasProducts();
  };
  EXPECT_THAT(algorithm_at({}), ElementsAre(0));
  EXPECT_THAT(algorithm_at({.a = 1}), ElementsAre(1));
  EXPECT_THAT(algorithm_at({.b = 2}), ElementsAre(1));
  EXPECT_THAT(algorithm_at({.c = 3}), ElementsAre(1));
  EXPECT_THAT(algorithm_at({.bias = 1}), ElementsAre(1));
  EXPECT_THAT(algorithm_at({.a = 4, .b = 8, .c = 12, .bias = 16}), ElementsAre(0));
  // The copies of factors are ours, and so is the distance of their rows.
  shape.k = 13;
  EXPECT_THAT(algorithm_at({}), ElementsAre(1));
  shape.precision = Precision::kBf16;
  EXPECT_THAT(algorithm_at({.a = 1, .b = 3}), ElementsAre(0));
  EXPECT_THAT(algorithm_at({.c = 1}), ElementsAre(1));
}

TEST_F(GemmTest, OnlyAUsableAlgorithmWithSumsInAFixedOrderIsTaken) {
  cuda_emulation::SetCublasAlgorithms(
      {{.is_usable = false},
       {.workspace_bytes = (uint64_t{32} << 20) + 1},
       {.reduction_scheme = CUBLASLT_REDUCTION_SCHEME_INPLACE},
       {.reduction_scheme = CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE},
       {.workspace_bytes = uint64_t{32} << 20,
        .reduction_scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}});
  GemmChoices choices(false);
  const std::unique_ptr<Gemm> gemm = Make(&choices);
  EXPECT_LE(ErrorOf(gemm.get(), kShape), kF32);
  EXPECT_THAT(cuda_emulation::TakeCublasProducts(), ElementsAre(4));
}

TEST_F(GemmTest, WithoutATrialTheFirstProposalIsTaken) {
  cuda_emulation::SetCublasAlgorithms({{.run_ms = 9}, {.run_ms = 1}});
  GemmChoices choices(false);
  const std::unique_ptr<Gemm> gemm = Make(&choices);
  ASSERT_TRUE(gemm->Prepare(stream_, kShape).ok());
  EXPECT_THAT(cuda_emulation::TakeCublasProducts(), IsEmpty());
  ErrorOf(gemm.get(), kShape);
  EXPECT_THAT(cuda_emulation::TakeCublasProducts(), ElementsAre(0));
}

TEST_F(GemmTest, ATrialFindsTheFastestThatRuns) {
  const auto trial = TrialOf(
      {{.run_ms = 0.3},
       {.is_usable = false, .run_ms = 0.01},
       {.run_ms = 0.2},
       {.is_refused = true, .run_ms = 0.01},
       {.run_ms = 0.25}});
  // One that loads, one by itself, then as many at once as take half a millisecond.
  EXPECT_THAT(trial, ElementsAre(0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4));
  EXPECT_EQ(taken_, 2);
  TrialOf({{.is_refused = true}, {.run_ms = 1}});
  EXPECT_EQ(taken_, 1);
}

TEST_F(GemmTest, AnotherThanTheFirstHasToBeClearlyFaster) {
  TrialOf({{.run_ms = 1}, {.run_ms = 0.98}});
  EXPECT_EQ(taken_, 0);
  TrialOf({{.run_ms = 1}, {.run_ms = 0.9}});
  EXPECT_EQ(taken_, 1);
}

TEST_F(GemmTest, ATrialEndsWithTheTimeThatItHas) {
  EXPECT_THAT(
      TrialOf({{.run_ms = 30}, {.run_ms = 25}, {.run_ms = 1}, {.run_ms = 0.1}}),
      ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(taken_, 1);
  EXPECT_THAT(TrialOf({{.run_ms = kTrialMs}, {.run_ms = 1}}), ElementsAre(0, 0));
  EXPECT_EQ(taken_, 0);
  const std::vector<int> one = TrialOf({{.run_ms = 1}});
  EXPECT_THAT(one, IsEmpty()) << "there is nothing to find";
}

TEST_F(GemmTest, WithoutMemoryForATrialTheFirstProposalIsTaken) {
  cuda_emulation::SetCublasAlgorithms({{.run_ms = 9}, {.run_ms = 1}});
  GemmChoices choices(true);
  const std::unique_ptr<Gemm> gemm = Make(&choices);
  cuda_emulation::SetDeviceMemory(1);
  EXPECT_TRUE(gemm->Prepare(stream_, kShape).ok());
  cuda_emulation::SetDeviceMemory(0);
  EXPECT_THAT(cuda_emulation::TakeCublasProducts(), IsEmpty());
  ErrorOf(gemm.get(), kShape);
  EXPECT_THAT(cuda_emulation::TakeCublasProducts(), ElementsAre(0));
}

TEST_F(GemmTest, ADeviceThatIsLostInATrialIsNotSlow) {
  cuda_emulation::SetCublasAlgorithms({{.run_ms = 9}, {.run_ms = 1}});
  GemmChoices choices(true);
  const std::unique_ptr<Gemm> gemm = Make(&choices);
  cuda_emulation::LoseDeviceAfter(3);
  EXPECT_EQ(gemm->Prepare(stream_, kShape).code(), StatusCode::kUnavailable);
  cuda_emulation::LoseDeviceAfter(-1);
  EXPECT_EQ(cuda_emulation::TakeFailure(), "the device was lost");
}

TEST_F(GemmTest, CopiesAreRoundedRowByRowWithZerosBetween) {
  constexpr int64_t kRows = 3;
  for (const int64_t columns : {1, 7, 8, 9, 16, 20}) {
    for (const int64_t from_pitch : {columns, columns + 1, columns + 4}) {
      for (const size_t offset : {0U, 1U}) {
        const std::vector<float> values = NormalValues(kRows * columns, kSeed);
        const StoredMatrix from(backend_.get(), kRows, columns, from_pitch, false, &values, offset);
        const int64_t pitch = (columns + 7) / 8 * 8;
        const StoredMatrix to(backend_.get(), kRows, columns, pitch, true, nullptr, 0);
        ASSERT_EQ(
            RoundRows(
                stream_,
                static_cast<const float*>(from.data()),
                kRows,
                columns,
                from_pitch,
                static_cast<uint16_t*>(to.data()),
                pitch),
            cudaSuccess);
        ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
        for (int64_t i = 0; i < kRows * pitch; ++i) {
          const int64_t column = i % pitch;
          const float expected = column < columns ? from.At(i / pitch, column) : 0.0F;
          EXPECT_EQ(to.At(i / pitch, column), FromBf16(ToBf16(expected)))
              << columns << " " << from_pitch << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ps::kernels::test
