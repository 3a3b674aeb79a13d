#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/attention/attention_fma.cuh"
#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/bf16.cuh"
#include "ps/base/random.h"

// The two ways to compute attention of factors of bf16. That they compute attention is shown by
// tests/kernels/attention_parity_test.cc.

namespace ps::kernels {
namespace {

using cuda_emulation::RunGrid;
using cuda_emulation::TakeBankConflicts;
using cuda_emulation::ThreadOrder;

constexpr Precision kRoundedFactors = Precision::kBf16;

/// Values that bf16 holds.
float Value(uint64_t seed, size_t i) {
  return static_cast<float>(static_cast<int64_t>(Mix64(seed ^ i) % 255) - 127) / 8;
}

/// Factors whose rows are made of `parts` heads, each with zeros behind it.
std::vector<uint16_t> Factors(
    int64_t rows, int64_t parts, int64_t width, int64_t pitch, uint64_t seed) {
  std::vector<uint16_t> factors(static_cast<size_t>(rows * parts * pitch));
  for (size_t i = 0; i < factors.size(); ++i) {
    const bool is_there = static_cast<int64_t>(i) % pitch < width;
    factors[i] = ToBf16(is_there ? Value(seed, i) : 0.0F);
  }
  return factors;
}

/// What one way to compute attention makes of a head.
struct HeadResult {
  std::vector<float> y;
  std::vector<float> log_sums;
  std::vector<float> dx;
};

/// The passes over one head of one sample, in blocks of as many rows as those on tensor cores have.
/// The y of the forward pass is not asked for by the others.
template <int width>
class OneHead {
 public:
  using M = MmaSizes<width>;
  using F = FmaBackwardSizes<width, kRoundedFactors>;  // in the memory of which the others fit

  OneHead(const AttentionShape& shape, bool is_tensor, ThreadOrder order)
      : shape_(shape),
        is_tensor_(is_tensor),
        order_(order),
        length_(shape.options.length),
        pitch_(FactorPitch(kRoundedFactors, shape.head_width)),
        x_(Factors(length_, kParts, shape.head_width, pitch_, 8)),
        dy_(Factors(length_, 1, shape.head_width, pitch_, 9)) {
    for (int64_t i = 0; i < RowPitch(length_); ++i) {
      deltas_.push_back(i < length_ ? Value(10, static_cast<size_t>(i)) : NAN);
    }
  }

  HeadResult Run() {
    HeadResult result;
    result.y.assign(static_cast<size_t>(length_ * shape_.head_width), NAN);
    result.log_sums.assign(deltas_.size(), NAN);
    result.dx.assign(result.y.size() * kParts, NAN);
    Pass(M::kForwardRows, M::kForwardBytes, FirstTile::kLast, [&](const Place& place) {
      if (is_tensor_) {
        MmaForward<width>(shape_, place, x_.data(), result.log_sums.data(), result.y.data());
      } else {
        ForFmaTiles<FmaForwardSizes<width, kRoundedFactors>, M::kForwardRows>(
            place, [&](int first) {
              FmaForward<width, kRoundedFactors>(
                  shape_, place, first, x_.data(), result.log_sums.data(), result.y.data());
            });
      }
    });
    const auto call = [&](const auto& function, const Place& place, auto... first) {
      function(
          shape_,
          place,
          first...,
          x_.data(),
          result.log_sums.data(),
          deltas_.data(),
          dy_.data(),
          result.dx.data());
    };
    Pass(M::kBackwardRows, M::kQueryBytes, FirstTile::kLast, [&](const Place& place) {
      if (is_tensor_) {
        call(MmaQueryGradient<width>, place);
      } else {
        ForFmaTiles<F, M::kBackwardRows>(place, [&](int first) {
          call(FmaQueryGradient<width, kRoundedFactors>, place, first);
        });
      }
    });
    Pass(M::kBackwardRows, M::kKeyBytes, FirstTile::kFirst, [&](const Place& place) {
      if (is_tensor_) {
        call(MmaKeyGradient<width>, place);
      } else {
        ForFmaTiles<F, M::kBackwardRows>(
            place, [&](int first) { call(FmaKeyGradient<width, kRoundedFactors>, place, first); });
      }
    });
    result.log_sums.resize(static_cast<size_t>(length_));  // nobody writes what is behind them
    return result;
  }

 private:
  template <typename Body>
  void Pass(int rows, size_t tensor_bytes, FirstTile first_tile, const Body& body) {
    const auto tiles = static_cast<int>(DivideUp(length_, rows));
    const std::string fault = RunGrid(
        static_cast<unsigned>(tiles),
        kAttentionThreads,
        order_,
        [&] { body(Place(shape_, tiles, rows, first_tile)); },
        is_tensor_ ? tensor_bytes : F::kBackwardBytes);
    EXPECT_EQ(fault, "");
  }

  const AttentionShape shape_;
  const bool is_tensor_;
  const ThreadOrder order_;
  const int64_t length_;
  const int64_t pitch_;
  const std::vector<uint16_t> x_;
  const std::vector<uint16_t> dy_;
  std::vector<float> deltas_;
};

double ErrorOf(const std::vector<float>& actual, const std::vector<float>& expected) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return error / norm;
}

template <int width>
void ExpectBothWaysAgree(int64_t length, int64_t head_width, bool causal) {
  const AttentionShape shape{
      .n = 1,
      .options =
          {.length = length, .width = head_width, .causal = causal, .precision = kRoundedFactors},
      .head_width = head_width,
      // The values are some tens of times too large for a softmax that has more than one weight.
      .scale = 0.01F / std::sqrt(static_cast<float>(head_width))};
  const HeadResult expected = OneHead<width>(shape, false, ThreadOrder::kAscending).Run();
  for (const ThreadOrder order : {ThreadOrder::kAscending, ThreadOrder::kDescending}) {
    const HeadResult found = OneHead<width>(shape, true, order).Run();
    SCOPED_TRACE(testing::Message() << width << " " << length << " " << causal);
    EXPECT_LE(ErrorOf(found.log_sums, expected.log_sums), 1e-11);
    // Weights are rounded in proportion to the largest so far.
    EXPECT_LE(ErrorOf(found.y, expected.y), 1e-5);
    EXPECT_LE(ErrorOf(found.dx, expected.dx), 1e-5);
  }
}

/// By tensor cores, and by what devices without them take for the same rounded factors.
TEST(AttentionWaysTest, BothMultiplyRoundedFactors) {
  for (const bool causal : {false, true}) {
    ExpectBothWaysAgree<32>(67, 32, causal);
    ExpectBothWaysAgree<32>(1, 7, causal);
    ExpectBothWaysAgree<32>(130, 30, causal);
    ExpectBothWaysAgree<64>(31, 63, causal);
    ExpectBothWaysAgree<64>(97, 64, causal);
    ExpectBothWaysAgree<128>(35, 127, causal);
    ExpectBothWaysAgree<128>(66, 128, causal);
  }
}

TEST(AttentionWaysTest, FactorsComeFromDifferentBanks) {
  const auto conflicts = []<int width>() {
    const AttentionShape shape{
        .n = 1,
        .options = {.length = 70, .width = width, .causal = false, .precision = kRoundedFactors},
        .head_width = width,
        .scale = 0.01F};
    TakeBankConflicts();
    OneHead<width>(shape, true, ThreadOrder::kAscending).Run();
    return TakeBankConflicts();
  };
  EXPECT_EQ(conflicts.operator()<32>(), 0U);
  EXPECT_EQ(conflicts.operator()<64>(), 0U);
  EXPECT_EQ(conflicts.operator()<128>(), 0U);
}

}  // namespace
}  // namespace ps::kernels
