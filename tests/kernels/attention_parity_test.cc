#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/op_runner.h"

// Attention at sizes around its tiles, where finite differences would take too long.

namespace ps::kernels::test {
namespace {

constexpr uint64_t kAttentionSeed = 29;
constexpr float kAttentionNan = std::numeric_limits<float>::quiet_NaN();

OpCase CaseOf(int64_t n, const AttentionOptions& options) {
  OpCase c;
  c.kind = "attention";
  c.sizes = testing::PrintToString(options.length) + "x" + testing::PrintToString(options.width) +
            "/" + testing::PrintToString(options.heads) + (options.causal ? " causal" : "");
  c.n = n;
  c.in_elements = 3 * options.length * options.width;
  c.out_elements = options.length * options.width;
  c.spec = options;
  return InPrecision(c, options.precision);
}

/// One head of one sample in double: y, and the gradient of the sum of y * dy by its columns of x.
class Head {
 public:
  Head(const AttentionOptions& o, const OpRunner& runner, int64_t sample, int64_t head)
      : o_(o), size_(o.width / o.heads), runner_(runner), sample_(sample), begin_(head * size_) {}

  void AddTo(Values* y, Values* dx) const {
    const double scale = 1 / std::sqrt(static_cast<double>(size_));
    for (int64_t t = 0; t < o_.length; ++t) {
      const int64_t end = o_.causal ? t + 1 : o_.length;
      Values p;
      Values dp;
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t u = 0; u < end; ++u) {
        double score = 0;
        double gradient = 0;
        for (int64_t i = 0; i < size_; ++i) {
          score += scale * X(t, 0, i) * X(u, 1, i);
          gradient += runner_.dy[InY(t, i)] * X(u, 2, i);
        }
        largest = std::max(largest, score);
        p.push_back(score);
        dp.push_back(gradient);
      }
      double sum = 0;
      for (double& value : p) {
        value = std::exp(value - largest);
        sum += value;
      }
      double delta = 0;
      for (size_t u = 0; u < p.size(); ++u) {
        p[u] /= sum;
        delta += p[u] * dp[u];
      }
      for (int64_t u = 0; u < end; ++u) {
        const double weight = p[static_cast<size_t>(u)];
        const double ds = scale * weight * (dp[static_cast<size_t>(u)] - delta);
        for (int64_t i = 0; i < size_; ++i) {
          (*y)[InY(t, i)] += weight * X(u, 2, i);
          (*dx)[InX(u, 2, i)] += weight * runner_.dy[InY(t, i)];
          (*dx)[InX(t, 0, i)] += ds * X(u, 1, i);
          (*dx)[InX(u, 1, i)] += ds * X(t, 0, i);
        }
      }
    }
  }

 private:
  size_t InY(int64_t token, int64_t i) const {
    return static_cast<size_t>((sample_ * o_.length + token) * o_.width + begin_ + i);
  }

  size_t InX(int64_t token, int64_t part, int64_t i) const {
    return static_cast<size_t>(((sample_ * o_.length + token) * 3 + part) * o_.width + begin_ + i);
  }

  double X(int64_t token, int64_t part, int64_t i) const { return runner_.x[InX(token, part, i)]; }

  const AttentionOptions o_;
  const int64_t size_;
  const OpRunner& runner_;
  const int64_t sample_;
  const int64_t begin_;
};

void RunBothPasses(OpRunner* runner) {
  runner->Prepare(true);
  runner->Forward(true);
  runner->Backward();
}

void ExpectParity(int64_t n, AttentionOptions options, Precision precision, float factor = 1) {
  options.precision = precision;
  const OpCase c = CaseOf(n, options);
  OpRunner runner(c, kAttentionSeed);
  for (float& value : runner.x) {
    value *= factor;
  }
  RunBothPasses(&runner);
  Values y(runner.y.size(), 0);
  Values dx(runner.dx.size(), 0);
  for (int64_t i = 0; i < n * options.heads; ++i) {
    Head(options, runner, i / options.heads, i % options.heads).AddTo(&y, &dx);
  }
  EXPECT_LE(NormalisedError(runner.y, y), factor * c.nmse_max) << c;
  EXPECT_LE(NormalisedError(runner.dx, dx), factor * c.gradient_nmse_max) << c;
}

TEST(AttentionParityTest, LengthsAroundTiles) {
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    for (const bool causal : {false, true}) {
      for (const int64_t length : {31, 32, 33, 63, 64, 65, 127, 128, 129}) {
        ExpectParity(1, {length, 32, 1, causal}, precision);
      }
      for (const int64_t length : {63, 64, 65, 129}) {
        ExpectParity(1, {length, 64, 1, causal}, precision);
      }
      for (const int64_t length : {31, 33, 65}) {
        ExpectParity(1, {length, 128, 1, causal}, precision);
      }
    }
  }
}

/// Several samples and heads, of widths that are no multiples of what is loaded at once.
TEST(AttentionParityTest, WidthsOfHeads) {
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    for (const int64_t head_width : {1, 7, 8, 12, 31, 33, 48, 63, 65, 100, 127}) {
      ExpectParity(2, {35, 2 * head_width, 2, true}, precision);
    }
    ExpectParity(2, {70, 3 * 64, 3, false}, precision);
  }
}

/// Weights that are all but 0 or 1: nothing overflows.
TEST(AttentionParityTest, LargeScores) {
  for (const bool causal : {false, true}) {
    ExpectParity(1, {67, 64, 1, causal}, Precision::kF32, 10);
  }
}

/// kernels/op.h.
TEST(AttentionParityTest, NanReachesAllThatSeeIt) {
  constexpr int64_t kWidth = 64;
  constexpr int64_t kToken = 70;
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    for (const bool causal : {false, true}) {
      for (const int64_t part : {0, 1, 2}) {
        const OpCase c = CaseOf(1, {130, kWidth, 1, causal, precision});
        OpRunner runner(c, kAttentionSeed);
        runner.x[static_cast<size_t>((3 * kToken + part) * kWidth + 5)] = kAttentionNan;
        runner.Prepare(true);
        runner.Forward(true);
        for (int64_t token = 0; token < 130; ++token) {
          const bool sees = part == 0 ? token == kToken : !causal || token >= kToken;
          const float value = runner.y[static_cast<size_t>(token * kWidth + 5)];
          EXPECT_TRUE(!sees || std::isnan(value)) << part << " " << token;
        }
      }
    }
  }
}

TEST(AttentionParityTest, SameWorkGivesTheSameBits) {
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    const OpCase c = CaseOf(1, {130, 128, 2, true, precision});
    OpRunner first(c, kAttentionSeed);
    OpRunner second(c, kAttentionSeed);
    RunBothPasses(&first);
    RunBothPasses(&second);
    EXPECT_EQ(first.y, second.y);
    EXPECT_EQ(first.dx, second.dx);
  }
}

}  // namespace
}  // namespace ps::kernels::test
