#include "kernels/cpu/alignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ps/base/random.h"

namespace ps::kernels::test {
namespace {

using Elements = std::vector<float>;

Elements Drawn(size_t n, uint64_t seed) {
  Random random(seed);
  Elements values(n);
  for (float& value : values) {
    value = static_cast<float>(random.Unit() - 0.5);
  }
  return values;
}

Turn TurnOf(const Elements& gradient, const Elements& momentum) {
  Alignment alignment;
  alignment.Add(gradient, momentum);
  return alignment.HelocoTurn();
}

double ScalarProduct(const Elements& x, const Elements& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += double{x[i]} * double{y[i]};
  }
  return sum;
}

Elements Turned(const Elements& gradient, const Elements& momentum) {
  const Turn turn = TurnOf(gradient, momentum);
  Elements turned(gradient.size());
  for (size_t i = 0; i < turned.size(); ++i) {
    turned[i] = turn.keep * gradient[i] + turn.towards * momentum[i];
  }
  return turned;
}

void ExpectKept(const Turn& turn) {
  EXPECT_EQ(turn.keep, 1);
  EXPECT_EQ(turn.towards, 0);
}

TEST(AlignmentTest, AGradientThatAgreesWithTheMomentumStays) {
  ExpectKept(TurnOf({1, 2, 3}, {2, 4, 6}));
  ExpectKept(TurnOf({1, 0}, {0.21F, 0.97F}));
}

/// |g| = |m| = 1: c = 1/4.
TEST(AlignmentTest, AGradientAgainstTheMomentumLosesSomeOfThat) {
  const Turn opposite = TurnOf({1, 0}, {-1, 0});  // b = 1/8
  EXPECT_EQ(opposite.keep, 1);
  EXPECT_FLOAT_EQ(opposite.towards, 0.125F * 0.25F);
  const Turn oblique = TurnOf({1, 0}, {-0.6F, 0.8F});  // b = 0.3 / 4
  EXPECT_EQ(oblique.keep, 1);
  EXPECT_FLOAT_EQ(oblique.towards, 0.075F * 0.6F * 0.25F);
}

/// The same angle with |m| = |g| / 1000: c is 1 nearly, and so are 2 b and the momentum's share.
TEST(AlignmentTest, AGradientMuchLargerThanTheMomentumLosesHalfOfWhatIsAgainstIt) {
  EXPECT_NEAR(TurnOf({1000, 0}, {-1, 0}).towards, 0.5F * 1000, 10);
}

TEST(AlignmentTest, AGradientAcrossTheMomentumIsTurnedTowardsItAndKeepsItsSize) {
  const Elements momentum = {0, 1};
  for (const Elements& gradient : {Elements{1, 0}, Elements{3, 0.57F}}) {
    const Elements turned = Turned(gradient, momentum);
    EXPECT_NEAR(ScalarProduct(turned, turned), ScalarProduct(gradient, gradient), 1e-5);
    EXPECT_GT(ScalarProduct(turned, momentum), ScalarProduct(gradient, momentum) + 0.1);
  }
  // c = 1/4 and cos = 0, so l = 1/4: the direction of (3, 1).
  const Elements turned = Turned({1, 0}, momentum);
  EXPECT_NEAR(turned[0], 3 / std::sqrt(10.0), 1e-6);
  EXPECT_NEAR(turned[1], 1 / std::sqrt(10.0), 1e-6);
}

TEST(AlignmentTest, WhatHasNoDirectionTurnsNothing) {
  ExpectKept(TurnOf({}, {}));
  ExpectKept(TurnOf({0, 0}, {1, 1}));
  ExpectKept(TurnOf({1, 1}, {0, 0}));
  ExpectKept(TurnOf({1e30F, 0}, {-1e-30F, 0}));
  const Turn huge = TurnOf({3e38F, 3e38F}, {-3e38F, -3e38F});
  EXPECT_FLOAT_EQ(huge.towards, 0.125F * 0.25F) << "squares that no f32 holds";
}

/// Large products that cancel exactly in the sum of their lane, before small ones: in other lanes,
/// or in another order, they leave rounding errors larger than what is to be found.
TEST(AlignmentTest, InWhicheverPiecesTheyComeTheBitsAreTheSame) {
  for (const size_t n : {24U, 31U, 55U, 997U}) {
    Elements g = Drawn(n, 1);
    Elements m = Drawn(n, 2);
    for (size_t i = 0; i < n; ++i) {
      const size_t row = i < n - n % 24 ? i / 8 % 3 : 2;
      if (row == 0) {
        g[i] = std::ldexp(g[i], 21);
        m[i] = std::ldexp(m[i], 21);
      } else if (row == 1) {
        g[i] = g[i - 8];
        m[i] = -m[i - 8];
      } else {
        m[i] = -g[i];
      }
    }
    const Turn whole = TurnOf(g, m);
    EXPECT_GT(whole.towards, 0);
    for (const size_t piece : {1U, 3U, 8U, 13U, 100U}) {
      Alignment alignment;
      for (size_t begin = 0; begin < n; begin += piece) {
        const size_t count = std::min(piece, n - begin);
        alignment.Add(std::span(g).subspan(begin, count), std::span(m).subspan(begin, count));
      }
      EXPECT_EQ(alignment.HelocoTurn().towards, whole.towards) << n << " in pieces of " << piece;
    }
  }
}

TEST(AlignmentTest, EveryElementCountsOnce) {
  Elements g(100, 0);
  Elements m(100, 0);
  g[3] = 1;
  m[3] = -1;
  const float towards = TurnOf(g, m).towards;
  for (size_t i = 0; i < g.size(); ++i) {
    Elements x(100, 0);
    Elements y(100, 0);
    x[i] = 1;
    y[i] = -1;
    EXPECT_EQ(TurnOf(x, y).towards, towards) << i;
  }
}

}  // namespace
}  // namespace ps::kernels::test
