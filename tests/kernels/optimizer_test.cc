#include "kernels/cpu/optimizer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/finite.h"
#include "kernels/cpu/optimizer_combine.h"
#include "ps/base/random.h"

namespace ps::kernels {
namespace {

constexpr int64_t kSizes[] = {0, 1, 31, 32, 33, 997, 20011};

std::vector<float> RandomValues(int64_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) {
    value = static_cast<float>(2 * random.Unit() - 1);
  }
  return values;
}

/// A parameter buffer with its state, updated by the code under test.
struct Piece {
  std::vector<float> w;
  std::vector<float> first;
  std::vector<float> second;
  uint64_t count = 0;

  explicit Piece(std::vector<float> values)
      : w(std::move(values)), first(w.size(), 0), second(w.size(), 0) {}

  void Update(const OptimizerRule& rule, const std::vector<float>& g, float lr, float decay = 0) {
    ApplyUpdate(
        rule,
        {lr, decay, ++count},
        {g.data(), w.data(), {first.data(), second.data()}, static_cast<int64_t>(w.size())});
  }
};

/// One parameter in double, by the formulas of PyTorch's documentation, with bias-corrected moments
/// written as such rather than folded into the step size.
struct Reference {
  double w = 0;
  double first = 0;
  double second = 0;
  int count = 0;

  void Update(const OptimizerRule& rule, double g, double lr, double decay) {
    ++count;
    if (rule.clip_value > 0) {
      g = std::fmin(std::fmax(g, -double{rule.clip_value}), double{rule.clip_value});
    }
    if (rule.kind == OptimizerKind::kAdamW) {
      w -= lr * decay * w;
    } else {
      g += decay * w;
    }
    switch (rule.kind) {
      case OptimizerKind::kSgd:
        if (rule.momentum != 0) {
          first = double{rule.momentum} * first + g;
          g = rule.nesterov ? g + double{rule.momentum} * first : first;
        }
        w -= lr * g;
        break;
      case OptimizerKind::kAdam:
      case OptimizerKind::kAdamW: {
        first = double{rule.beta1} * first + (1 - double{rule.beta1}) * g;
        second = double{rule.beta2} * second + (1 - double{rule.beta2}) * g * g;
        const double m_hat = first / (1 - std::pow(double{rule.beta1}, count));
        const double v_hat = second / (1 - std::pow(double{rule.beta2}, count));
        w -= lr * m_hat / (std::sqrt(v_hat) + double{rule.epsilon});
        break;
      }
      case OptimizerKind::kAdagrad:
        first += g * g;
        w -= lr * g / (std::sqrt(first) + double{rule.epsilon});
        break;
    }
  }
};

struct RuleCase {
  const char* name;
  OptimizerRule rule;
  float decay = 0;
};

std::vector<RuleCase> AllRules() {
  const auto sgd = [](float momentum, bool nesterov, float clip) {
    OptimizerRule rule;
    rule.momentum = momentum;
    rule.nesterov = nesterov;
    rule.clip_value = clip;
    return rule;
  };
  const auto other = [](OptimizerKind kind, float clip) {
    OptimizerRule rule;
    rule.kind = kind;
    rule.clip_value = clip;
    return rule;
  };
  std::vector<RuleCase> cases;
  for (const float decay : {0.0F, 0.05F}) {
    for (const float clip : {0.0F, 0.3F}) {
      cases.push_back({"sgd", sgd(0, false, clip), decay});
      cases.push_back({"momentum", sgd(0.9F, false, clip), decay});
      cases.push_back({"nesterov", sgd(0.9F, true, clip), decay});
      cases.push_back({"adam", other(OptimizerKind::kAdam, clip), decay});
      cases.push_back({"adamw", other(OptimizerKind::kAdamW, clip), decay});
      cases.push_back({"adagrad", other(OptimizerKind::kAdagrad, clip), decay});
    }
  }
  return cases;
}

TEST(OptimizerTest, EveryRuleFollowsTheFormulasInDouble) {
  for (const RuleCase& c : AllRules()) {
    for (const int64_t n : kSizes) {
      Piece piece(RandomValues(n, 1));
      std::vector<Reference> reference(static_cast<size_t>(n));
      for (size_t i = 0; i < reference.size(); ++i) {
        reference[i].w = piece.w[i];
      }
      for (uint64_t step = 0; step < 4; ++step) {
        const std::vector<float> g = RandomValues(n, 100 + step);
        const float lr = 0.1F / static_cast<float>(step + 1);
        piece.Update(c.rule, g, lr, c.decay);
        for (size_t i = 0; i < reference.size(); ++i) {
          reference[i].Update(c.rule, g[i], lr, c.decay);
        }
      }
      for (size_t i = 0; i < reference.size(); ++i) {
        ASSERT_NEAR(piece.w[i], reference[i].w, 2e-5)
            << c.name << " decay " << c.decay << " clip " << c.rule.clip_value << " element " << i
            << " of " << n;
      }
    }
  }
}

TEST(OptimizerTest, SlotsAreWhatEachRuleNeeds) {
  for (const RuleCase& c : AllRules()) {
    const int expected = c.rule.kind == OptimizerKind::kSgd
                             ? (c.rule.momentum == 0 ? 0 : 1)
                             : (c.rule.kind == OptimizerKind::kAdagrad ? 1 : kOptimizerSlotsMax);
    EXPECT_EQ(OptimizerSlotCount(c.rule), expected) << c.name;
  }
}

TEST(OptimizerTest, AnUpdateTouchesNothingBesideItsBuffers) {
  for (const RuleCase& c : AllRules()) {
    for (const size_t n : {size_t{1}, size_t{31}, size_t{33}}) {
      std::vector<float> w(n + 64, 7);
      std::vector<float> first(n + 64, 7);
      std::vector<float> second(n + 64, 7);
      const std::vector<float> g(n, 0.5F);
      ApplyUpdate(
          c.rule,
          {0.1F, c.decay, 1},
          {g.data(), w.data(), {first.data(), second.data()}, static_cast<int64_t>(n)});
      for (size_t i = n; i < n + 64; ++i) {
        ASSERT_EQ(w[i], 7) << c.name;
        ASSERT_EQ(first[i], 7) << c.name;
        ASSERT_EQ(second[i], 7) << c.name;
      }
    }
  }
}

TEST(OptimizerTest, PlainSgdIsBitForBitAPlainLoop) {
  for (const int64_t n : kSizes) {
    Piece piece(RandomValues(n, 2));
    std::vector<float> expected = piece.w;
    for (uint64_t step = 0; step < 3; ++step) {
      const std::vector<float> g = RandomValues(n, 200 + step);
      piece.Update(OptimizerRule(), g, 0.037F);
      for (size_t i = 0; i < expected.size(); ++i) {
        const volatile float product = 0.037F * g[i];  // rounded before it is subtracted
        expected[i] -= product;
      }
    }
    ASSERT_TRUE(n == 0 || std::memcmp(expected.data(), piece.w.data(), expected.size() * 4) == 0)
        << n;
  }
}

TEST(OptimizerTest, WithoutDecayAnInfiniteParameterStaysWhatItIs) {
  const float infinity = std::numeric_limits<float>::infinity();
  Piece piece({infinity, -infinity});
  piece.Update(OptimizerRule(), {1, 1}, 0.1F);
  EXPECT_EQ(piece.w[0], infinity);
  EXPECT_EQ(piece.w[1], -infinity);
}

/// Parameter 1, gradients 0.5 and 0.25, learning rate 0.1; values worked out by hand.
std::vector<float> TwoSteps(const OptimizerRule& rule, float decay) {
  Piece piece({1});
  std::vector<float> values;
  for (const float g : {0.5F, 0.25F}) {
    piece.Update(rule, {g}, 0.1F, decay);
    values.push_back(piece.w[0]);
  }
  return values;
}

void ExpectTwoSteps(const OptimizerRule& rule, float decay, float after_one, float after_two) {
  const std::vector<float> values = TwoSteps(rule, decay);
  EXPECT_NEAR(values[0], after_one, 2e-6F);
  EXPECT_NEAR(values[1], after_two, 2e-6F);
}

TEST(OptimizerTest, SgdGivesThePyTorchValues) {
  OptimizerRule rule;
  ExpectTwoSteps(rule, 0, 0.95F, 0.925F);
  ExpectTwoSteps(rule, 0.1F, 0.94F, 0.9056F);
  rule.momentum = 0.9F;
  ExpectTwoSteps(rule, 0, 0.95F, 0.88F);
  rule.nesterov = true;
  ExpectTwoSteps(rule, 0, 0.905F, 0.817F);
}

TEST(OptimizerTest, AdamGivesThePyTorchValues) {
  OptimizerRule rule;
  rule.kind = OptimizerKind::kAdam;
  ExpectTwoSteps(rule, 0, 0.9F, 0.806782F);
  ExpectTwoSteps(rule, 0.1F, 0.9F, 0.805010F);
}

TEST(OptimizerTest, AdamWDecaysThePyTorchWay) {
  OptimizerRule rule;
  rule.kind = OptimizerKind::kAdamW;
  ExpectTwoSteps(rule, 0, 0.9F, 0.806782F);
  ExpectTwoSteps(rule, 0.1F, 0.89F, 0.787882F);
}

TEST(OptimizerTest, AdagradGivesThePyTorchValues) {
  OptimizerRule rule;
  rule.kind = OptimizerKind::kAdagrad;
  ExpectTwoSteps(rule, 0, 0.9F, 0.855279F);
}

TEST(OptimizerTest, GradientsAreClippedByValueBeforeDecay) {
  OptimizerRule rule;
  rule.clip_value = 0.25F;
  Piece piece({1, 1, 1});
  piece.Update(rule, {4, -4, 0.125F}, 1, 0.5F);
  EXPECT_EQ(piece.w, (std::vector<float>{0.25F, 0.75F, 0.375F}));
}

TEST(OptimizerTest, AnElementThatWouldOverflowKeepsItsValueAndState) {
  constexpr int64_t kCount = 997;
  for (const RuleCase& c : AllRules()) {
    if (c.rule.clip_value > 0) {
      continue;  // nothing is huge then
    }
    std::vector<float> g = RandomValues(kCount, 1);
    const std::vector<float> w = RandomValues(kCount, 2);
    for (const int64_t at : {int64_t{0}, kCount / 2, kCount - 1}) {
      std::vector<float> huge = g;
      huge[static_cast<size_t>(at)] = 3e38F;
      Piece piece(w);
      const bool is_finite = ApplyUpdate(
          c.rule,
          {10, c.decay, 1},
          {huge.data(), piece.w.data(), {piece.first.data(), piece.second.data()}, kCount});
      EXPECT_FALSE(is_finite) << c.name;
      EXPECT_EQ(piece.w[static_cast<size_t>(at)], w[static_cast<size_t>(at)]) << c.name;
      EXPECT_EQ(piece.first[static_cast<size_t>(at)], 0) << c.name;
      EXPECT_EQ(piece.second[static_cast<size_t>(at)], 0) << c.name;
      EXPECT_TRUE(AllFinite(piece.w) && AllFinite(piece.first) && AllFinite(piece.second));
      EXPECT_NE(piece.w[1], w[1]) << "the others are updated";
      EXPECT_TRUE(ApplyUpdate(
          c.rule,
          {0.1F, c.decay, 2},
          {g.data(), piece.w.data(), {piece.first.data(), piece.second.data()}, kCount}));
    }
  }
}

TEST(AllFiniteTest, OrdinaryExtremeAndTinyNumbersAreFinite) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> values = {
      0, -0.0F, 1, Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min()};
  EXPECT_TRUE(AllFinite(values));
  EXPECT_TRUE(AllFinite({}));
}

TEST(AllFiniteTest, OneBadElementIsFoundWhereverItIs) {
  const float bad[] = {
      std::numeric_limits<float>::infinity(),
      -std::numeric_limits<float>::infinity(),
      std::numeric_limits<float>::quiet_NaN(),
      -std::numeric_limits<float>::quiet_NaN(),
      std::bit_cast<float>(0x7f800001U),  // signalling
      std::bit_cast<float>(0xffffffffU)};
  for (const size_t n : {size_t{1}, size_t{31}, size_t{32}, size_t{33}, size_t{997}}) {
    std::vector<float> values(n, std::numeric_limits<float>::max());
    ASSERT_TRUE(AllFinite(values));
    for (size_t i = 0; i < n; ++i) {
      values[i] = bad[i % std::size(bad)];
      ASSERT_FALSE(AllFinite(values)) << i << " of " << n;
      values[i] = -1;
    }
  }
}

TEST(AllFiniteTest, BadElementsAreFoundInEveryBlockOfALongBuffer) {
  std::vector<float> values(100003, 1);
  for (size_t i = 0; i < values.size(); i += 9091) {
    values[i] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_FALSE(AllFinite(values)) << i;
    values[i] = 1;
  }
  values.back() = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(AllFinite(values));
}

TEST(MoveTowardsTest, AnAverageThatWouldOverflowStays) {
  const std::vector<float> x = {3e38F, 1};
  std::vector<float> w = {-3e38F, 0};
  EXPECT_FALSE(MoveTowards(x.data(), 0.5F, w.data(), 2));
  EXPECT_EQ(w[0], -3e38F);
  EXPECT_EQ(w[1], 0.5F);
  EXPECT_TRUE(MoveTowards(x.data() + 1, 0.5F, w.data() + 1, 1));
}

TEST(MoveTowardsTest, MovesByTheRate) {
  for (const int64_t n : kSizes) {
    const std::vector<float> x = RandomValues(n, 3);
    const std::vector<float> before = RandomValues(n, 4);
    std::vector<float> w = before;
    MoveTowards(x.data(), 0.25F, w.data(), n);
    for (size_t i = 0; i < w.size(); ++i) {
      ASSERT_NEAR(w[i], 0.75 * before[i] + 0.25 * x[i], 1e-6);
    }
  }
}

TEST(WeightedMeanTest, IsTheMeanOfThePartsBySamples) {
  for (const int64_t n : kSizes) {
    const std::vector<float> a = RandomValues(n, 5);
    const std::vector<float> b = RandomValues(n, 6);
    const std::vector<float> c = RandomValues(n, 7);
    std::vector<float> y(static_cast<size_t>(n), 99);
    const WeightedPart parts[] = {{a.data(), 64}, {b.data(), 32}, {c.data(), 7}};
    WeightedMean(parts, y.data(), n);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], (64.0 * a[i] + 32.0 * b[i] + 7.0 * c[i]) / 103, 1e-6);
    }
  }
}

TEST(WeightedMeanTest, SumsInTheOrderGiven) {
  const float big = 1e8F;
  const float a = big;
  const float b = -big;
  const float c = 1;
  float y = 0;
  const WeightedPart small_last[] = {{&a, 1}, {&b, 1}, {&c, 1}};
  WeightedMean(small_last, &y, 1);
  EXPECT_EQ(y, 1.0F / 3.0F);
  const WeightedPart small_first[] = {{&c, 1}, {&a, 1}, {&b, 1}};
  WeightedMean(small_first, &y, 1);
  EXPECT_EQ(y, 0);  // 1 + 1e8 is 1e8 in f32
}

TEST(WeightedMeanTest, OnePartIsTakenAsItIs) {
  const std::vector<float> a = RandomValues(997, 8);
  std::vector<float> y(a.size());
  const WeightedPart parts[] = {{a.data(), 3}};
  WeightedMean(parts, y.data(), 997);
  EXPECT_EQ(std::memcmp(a.data(), y.data(), a.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace ps::kernels
