#include "kernels/cpu/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/finite.h"
#include "kernels/optimizer_slots.h"
#include "ps/base/random.h"
#include "tests/kernels/op_runner.h"

// Updates on the backend under test.

namespace ps::kernels::test {
namespace {

constexpr int64_t kUpdateSizes[] = {0, 1, 31, 32, 33, 997, 4099};

std::vector<float> RandomValues(int64_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) {
    value = static_cast<float>(2 * random.Unit() - 1);
  }
  return values;
}

/// A parameter buffer with its state, updated on the backend under test.
struct Piece {
  std::vector<float> w;
  std::vector<float> first;
  std::vector<float> second;
  uint64_t count = 0;
  Turn turn;                 // of the next updates
  bool is_left_out = false;  // an element, at the last update

  explicit Piece(std::vector<float> values)
      : w(std::move(values)),
        first(w.size(), 0),
        second(w.size(), 0),
        device_g_(BackendUnderTest(), w.size(), 1),
        device_w_(BackendUnderTest(), w.size(), 2),
        device_first_(BackendUnderTest(), w.size(), 0),
        device_second_(BackendUnderTest(), w.size(), 3),
        device_left_out_(BackendUnderTest(), 1, 0) {}

  void Update(const OptimizerRule& rule, const std::vector<float>& g, float lr, float decay = 0) {
    UpdateSome(rule, g, lr, decay, w.size());
  }

  /// The first n elements.
  void UpdateSome(
      const OptimizerRule& rule, const std::vector<float>& g, float lr, float decay, size_t n) {
    device_g_.Upload(stream_.get(), g);
    device_w_.Upload(stream_.get(), w);
    device_first_.Upload(stream_.get(), first);
    device_second_.Upload(stream_.get(), second);
    std::vector<float> left_out = {0};
    device_left_out_.Upload(stream_.get(), left_out);
    const TensorUpdate update{
        {lr, decay, ++count, turn},
        {device_g_.data(),
         device_w_.data(),
         {device_first_.data(), device_second_.data()},
         static_cast<int64_t>(n)}};
    stream_->ApplyUpdates(rule, {&update, 1}, reinterpret_cast<uint32_t*>(device_left_out_.data()));
    device_w_.Download(stream_.get(), w);
    device_first_.Download(stream_.get(), first);
    device_second_.Download(stream_.get(), second);
    device_left_out_.Download(stream_.get(), left_out);
    is_left_out = std::bit_cast<uint32_t>(left_out[0]) == 1;
  }

 private:
  std::unique_ptr<Stream> stream_ = BackendUnderTest()->MakeStream().value();
  DeviceFloats device_g_;
  DeviceFloats device_w_;
  DeviceFloats device_first_;
  DeviceFloats device_second_;
  DeviceFloats device_left_out_;
};

/// One parameter in double, by the formulas of PyTorch's documentation, with bias-corrected moments
/// written as such rather than folded into the step size.
struct Reference {
  double w = 0;
  double first = 0;
  double second = 0;
  int count = 0;

  void Update(const OptimizerRule& rule, double g, double lr, double decay, const Turn& turn = {}) {
    ++count;
    if (rule.clip_value > 0) {
      g = std::fmin(std::fmax(g, -double{rule.clip_value}), double{rule.clip_value});
    }
    if (rule.kind == OptimizerKind::kAdamw) {
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
      case OptimizerKind::kAdamw: {
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
      case OptimizerKind::kRmsprop:
        first = double{rule.alpha} * first + (1 - double{rule.alpha}) * g * g;
        second = double{rule.momentum} * second + g / (std::sqrt(first) + double{rule.epsilon});
        w -= lr * second;
        break;
      case OptimizerKind::kDelayedNesterov: {
        const double every = rule.every;
        second += g;
        double step = g / every;
        if (count % static_cast<int>(rule.every) == 0) {
          first = double{rule.momentum} * first + second / every;
          step += double{rule.momentum} * first;
          second = 0;
        }
        w -= lr * step;
        break;
      }
      case OptimizerKind::kHeloco: {  // `second` is what the look-ahead w is of
        second = count == 1 ? w : second;
        const double turned = double{turn.keep} * g + double{turn.towards} * first;
        first = double{rule.momentum} * first + (1 - double{rule.momentum}) * turned;
        second -= lr * (turned + double{rule.momentum} * first);
        w = second - lr * double{rule.momentum} * first;
        break;
      }
    }
  }
};

struct RuleCase {
  const char* name;
  OptimizerRule rule;
  float decay = 0;
  Turn turn = {};
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
      cases.push_back({"adamw", other(OptimizerKind::kAdamw, clip), decay});
      cases.push_back({"adagrad", other(OptimizerKind::kAdagrad, clip), decay});
      OptimizerRule rmsprop = other(OptimizerKind::kRmsprop, clip);
      cases.push_back({"rmsprop", rmsprop, decay});
      rmsprop.momentum = 0.9F;
      cases.push_back({"rmsprop with momentum", rmsprop, decay});
      OptimizerRule delayed = other(OptimizerKind::kDelayedNesterov, clip);
      delayed.momentum = 0.9F;
      delayed.every = 3;
      cases.push_back({"delayed nesterov", delayed, decay});
      OptimizerRule heloco = other(OptimizerKind::kHeloco, clip);
      heloco.momentum = 0.9F;
      cases.push_back({"heloco", heloco, decay});
      cases.push_back({"heloco that turns", heloco, decay, {0.75F, 0.5F}});
    }
  }
  return cases;
}

TEST(OptimizerTest, EveryRuleFollowsTheFormulasInDouble) {
  for (const RuleCase& c : AllRules()) {
    for (const int64_t n : kUpdateSizes) {
      Piece piece(RandomValues(n, 1));
      std::vector<Reference> reference(static_cast<size_t>(n));
      for (size_t i = 0; i < reference.size(); ++i) {
        reference[i].w = piece.w[i];
      }
      for (uint64_t step = 0; step < 4; ++step) {
        const std::vector<float> g = RandomValues(n, 100 + step);
        // HeLoCo's look-ahead is exact where the learning rate stays.
        const bool is_falling = c.rule.kind != OptimizerKind::kHeloco;
        const float lr = is_falling ? 0.1F / static_cast<float>(step + 1) : 0.1F;
        piece.turn = c.turn;
        piece.Update(c.rule, g, lr, c.decay);
        for (size_t i = 0; i < reference.size(); ++i) {
          reference[i].Update(c.rule, g[i], lr, c.decay, c.turn);
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
  const auto slots = [](OptimizerKind kind, float momentum) {
    OptimizerRule rule;
    rule.kind = kind;
    rule.momentum = momentum;
    return OptimizerSlotCount(rule);
  };
  EXPECT_EQ(slots(OptimizerKind::kSgd, 0), 0);
  EXPECT_EQ(slots(OptimizerKind::kSgd, 0.9F), 1);
  EXPECT_EQ(slots(OptimizerKind::kAdam, 0), 2);
  EXPECT_EQ(slots(OptimizerKind::kAdamw, 0), 2);
  EXPECT_EQ(slots(OptimizerKind::kAdagrad, 0), 1);
  EXPECT_EQ(slots(OptimizerKind::kRmsprop, 0), 1);
  EXPECT_EQ(slots(OptimizerKind::kRmsprop, 0.9F), 2);
  EXPECT_EQ(slots(OptimizerKind::kDelayedNesterov, 0.9F), 2);
  EXPECT_EQ(slots(OptimizerKind::kHeloco, 0.9F), 1);
}

TEST(OptimizerTest, DelayedNesterovOfEachUpdateIsNesterov) {
  OptimizerRule nesterov;
  nesterov.momentum = 0.9F;
  nesterov.nesterov = true;
  OptimizerRule delayed = nesterov;
  delayed.kind = OptimizerKind::kDelayedNesterov;
  delayed.every = 1;
  Piece a(RandomValues(33, 1));
  Piece b(a.w);
  for (uint64_t step = 0; step < 4; ++step) {
    a.Update(nesterov, RandomValues(33, 10 + step), 0.1F);
    b.Update(delayed, RandomValues(33, 10 + step), 0.1F);
    for (size_t i = 0; i < a.w.size(); ++i) {
      ASSERT_NEAR(a.w[i], b.w[i], 1e-6);
    }
  }
}

TEST(OptimizerTest, AnUpdateTouchesNothingBesideItsBuffers) {
  for (const RuleCase& c : AllRules()) {
    for (const size_t n : {size_t{1}, size_t{31}, size_t{33}}) {
      Piece piece(std::vector<float>(n + 64, 7));
      piece.first.assign(n + 64, 7);
      piece.second.assign(n + 64, 7);
      piece.UpdateSome(c.rule, std::vector<float>(n + 64, 0.5F), 0.1F, c.decay, n);
      for (size_t i = n; i < n + 64; ++i) {
        ASSERT_EQ(piece.w[i], 7) << c.name;
        ASSERT_EQ(piece.first[i], 7) << c.name;
        ASSERT_EQ(piece.second[i], 7) << c.name;
      }
    }
  }
}

std::vector<uint32_t> BitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), std::bit_cast<uint32_t, float>);
  return bits;
}

/// Of every size, tiny ones included, whose squares are denormal or 0.
std::vector<float> SpreadValues(int64_t n, uint64_t seed) {
  std::vector<float> values = RandomValues(n, seed);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ldexp(values[i], 4 - static_cast<int>(i % 140));
  }
  return values;
}

TEST(OptimizerTest, EveryRuleGivesTheBitsOfTheCpu) {
  constexpr int64_t kCount = 1021;
  for (const RuleCase& c : AllRules()) {
    Piece piece(SpreadValues(kCount, 3));
    std::vector<float> w = piece.w;
    std::vector<float> first(w.size(), 0);
    std::vector<float> second(w.size(), 0);
    for (uint64_t step = 1; step <= 5; ++step) {
      std::vector<float> g = SpreadValues(kCount, 300 + step);
      g[step] = 3e38F;  // is left out where nothing clips it
      piece.turn = c.turn;
      piece.Update(c.rule, g, 3.7F, c.decay);
      const bool is_whole = ApplyUpdate(
          c.rule,
          {3.7F, c.decay, step, c.turn},
          {g.data(), w.data(), {first.data(), second.data()}, kCount});
      EXPECT_EQ(piece.is_left_out, !is_whole) << c.name;
      ASSERT_EQ(BitsOf(piece.w), BitsOf(w)) << c.name << " step " << step;
      ASSERT_EQ(BitsOf(piece.first), BitsOf(first)) << c.name << " step " << step;
      ASSERT_EQ(BitsOf(piece.second), BitsOf(second)) << c.name << " step " << step;
    }
  }
}

/// More of them than one launch has room for, of all sizes, each with a step of its own.
TEST(OptimizerTest, ManyTensorsAtOnceAreEachByItself) {
  constexpr size_t kTensors = 130;
  const std::unique_ptr<Stream> stream = BackendUnderTest()->MakeStream().value();
  for (const RuleCase& c : AllRules()) {
    std::vector<std::vector<float>> values;  // w, first, second of each
    std::vector<std::unique_ptr<DeviceFloats>> memory;
    std::vector<TensorUpdate> updates;
    const auto put = [&](const std::vector<float>& content) {
      memory.push_back(
          std::make_unique<DeviceFloats>(BackendUnderTest(), content.size(), memory.size() % 4));
      memory.back()->Upload(stream.get(), content);
      return memory.back()->data();
    };
    bool is_whole = true;
    for (size_t i = 0; i < kTensors; ++i) {
      const auto n = static_cast<int64_t>(i * i % 300);
      std::vector<float> g = SpreadValues(n, 3 * i);
      if (i == 77) {
        g[1] = 3e38F;
      }
      std::vector<float> w = SpreadValues(n, 3 * i + 1);
      std::vector<float> first(w.size(), 0.5F);
      std::vector<float> second(w.size(), 0.25F);
      const UpdateStep step{
          0.01F * static_cast<float>(i + 1), i % 3 == 0 ? 0 : c.decay, i + 1, c.turn};
      float* const device_g = put(g);
      float* const device_w = put(w);
      float* const device_first = put(first);
      updates.push_back({step, {device_g, device_w, {device_first, put(second)}, n}});
      is_whole =
          ApplyUpdate(c.rule, step, {g.data(), w.data(), {first.data(), second.data()}, n}) &&
          is_whole;
      values.insert(values.end(), {w, first, second});
    }
    const DeviceFloats left_out(BackendUnderTest(), 1, 0);
    std::vector<float> flag = {0};
    left_out.Upload(stream.get(), flag);
    stream->ApplyUpdates(c.rule, updates, reinterpret_cast<uint32_t*>(left_out.data()));
    left_out.Download(stream.get(), flag);
    EXPECT_EQ(std::bit_cast<uint32_t>(flag[0]), is_whole ? 0U : 1U) << c.name;
    for (size_t i = 0; i < 3 * kTensors; ++i) {
      std::vector<float> got(values[i].size());
      memory[i / 3 * 4 + i % 3 + 1]->Download(stream.get(), got);
      ASSERT_EQ(BitsOf(got), BitsOf(values[i])) << c.name << " tensor " << i / 3;
    }
    stream->ApplyUpdates(c.rule, {}, nullptr);
  }
}

TEST(OptimizerTest, PlainSgdIsBitForBitAPlainLoop) {
  for (const int64_t n : kUpdateSizes) {
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

/// With alpha 0.99: v is 0.01 * 0.5^2 = 0.0025, then 0.99 * 0.0025 + 0.01 * 0.25^2 = 0.0031, whose
/// roots are 0.05 and 0.0556776; steps of 0.1 * 0.5 / 0.05 = 1 and 0.1 * 0.25 / 0.0556776.
TEST(OptimizerTest, RmspropGivesThePyTorchValues) {
  OptimizerRule rule;
  rule.kind = OptimizerKind::kRmsprop;
  rule.alpha = 0.99F;
  ExpectTwoSteps(rule, 0, 0, -0.449013F);
  rule.momentum = 0.9F;  // the second step is 0.9 * 1 more
  ExpectTwoSteps(rule, 0, 0, -1.349013F);
  rule.momentum = 0;
  rule.alpha = 0.9F;  // of gradient 0.6 with decay the step is 0.1 / sqrt(0.1)
  ExpectTwoSteps(rule, 0.1F, 0.683772F, 0.529403F);
}

TEST(OptimizerTest, AdamGivesThePyTorchValues) {
  OptimizerRule rule;
  rule.kind = OptimizerKind::kAdam;
  ExpectTwoSteps(rule, 0, 0.9F, 0.806782F);
  ExpectTwoSteps(rule, 0.1F, 0.9F, 0.805010F);
}

TEST(OptimizerTest, AdamWDecaysThePyTorchWay) {
  OptimizerRule rule;
  rule.kind = OptimizerKind::kAdamw;
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
      piece.Update(c.rule, huge, 10, c.decay);
      EXPECT_TRUE(piece.is_left_out) << c.name;
      EXPECT_EQ(piece.w[static_cast<size_t>(at)], w[static_cast<size_t>(at)]) << c.name;
      EXPECT_EQ(piece.first[static_cast<size_t>(at)], 0) << c.name;
      EXPECT_EQ(piece.second[static_cast<size_t>(at)], 0) << c.name;
      EXPECT_TRUE(AllFinite(piece.w) && AllFinite(piece.first) && AllFinite(piece.second));
      EXPECT_NE(piece.w[1], w[1]) << "the others are updated";
      piece.Update(c.rule, g, 0.1F, c.decay);
      EXPECT_FALSE(piece.is_left_out) << c.name;
    }
  }
}

}  // namespace
}  // namespace ps::kernels::test
