#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tests/kernels/on_device.h"
#include "tests/kernels/op_runner.h"

// The losses on the backend under test, against plain double and against PyTorch.

namespace ps::kernels::test {
namespace {

constexpr float kLossNan = std::numeric_limits<float>::quiet_NaN();
constexpr LossKind kNumberLosses[] = {
    LossKind::kMse, LossKind::kMae, LossKind::kHuber, LossKind::kBce};

std::vector<uint32_t> WordsOf(const std::vector<float>& targets) {
  std::vector<uint32_t> bits;
  for (const float target : targets) {
    bits.push_back(std::bit_cast<uint32_t>(target));
  }
  return bits;
}

/// By the definitions, of all outputs.
double PlainElement(LossKind kind, double z, double t, double delta) {
  const double error = std::fabs(z - t);
  switch (kind) {
    case LossKind::kMse:
      return error * error;
    case LossKind::kMae:
      return error;
    case LossKind::kHuber:
      return error <= delta ? error * error / 2 : delta * (error - delta / 2);
    default: {
      const double s = 1 / (1 + std::exp(-z));
      return -t * std::log(s) - (1 - t) * std::log(1 - s);
    }
  }
}

double PlainSum(LossKind kind, const Values& z, const std::vector<float>& targets, double delta) {
  double sum = 0;
  for (size_t i = 0; i < z.size(); ++i) {
    sum += PlainElement(kind, z[i], static_cast<double>(targets[i]), delta);
  }
  return sum;
}

/// - sum over j of q[j] log(p[j]), by rows.
double PlainClassSum(
    const Values& z,
    const std::vector<uint32_t>& labels,
    double smoothing,
    const std::vector<float>& weights) {
  const size_t classes = z.size() / labels.size();
  double loss = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    double sum = 0;
    for (size_t j = 0; j < classes; ++j) {
      sum += std::exp(z[row * classes + j]);
    }
    for (size_t j = 0; j < classes; ++j) {
      const double q =
          (j == labels[row] ? 1 - smoothing : 0.0) + smoothing / static_cast<double>(classes);
      loss -= q * static_cast<double>(weights[j]) * (z[row * classes + j] - std::log(sum));
    }
  }
  return loss;
}

class LossParity : public testing::Test {
 protected:
  struct Found {
    LossResult result;
    std::vector<float> dz;
  };

  /// `args` says what is computed; memory is filled in here.
  Found Compute(
      LossArgs args,
      const std::vector<float>& z,
      const std::vector<uint32_t>& labels,
      const std::vector<float>& weights = {},
      double divisor = 0) {
    const OnDevice<float> logits(stream_.get(), z, 1);
    const OnDevice<uint32_t> device_labels(stream_.get(), labels);
    const OnDevice<float> dz(stream_.get(), std::vector<float>(z.size(), kLossNan), 1);
    const OnDevice<float> device_weights(stream_.get(), weights);
    const OnDevice<double> device_divisor(stream_.get(), {divisor});
    const OnDevice<LossResult> result(stream_.get(), {{-1, -1, -1, -1, -1}});
    args.logits = logits.data();
    args.labels = device_labels.data();
    args.dz = dz.data();
    args.result = result.data();
    args.divisor = device_divisor.data();
    args.class_weights = weights.empty() ? nullptr : device_weights.data();
    stream_->ComputeLoss(args);
    const Found found{result.Values()[0], dz.Values()};
    args.dz = logits.data();
    stream_->ComputeLoss(args);
    EXPECT_EQ(WordsOf(logits.Values()), WordsOf(found.dz)) << "in place";
    EXPECT_EQ(result.Values()[0].near, found.result.near);
    return found;
  }

  std::unique_ptr<Stream> stream_ = BackendUnderTest()->MakeStream().value();
};

TEST_F(LossParity, LossesOfNumbersEqualTheirDefinitions) {
  constexpr float kDelta = 0.75F;
  for (const LossKind kind : kNumberLosses) {
    for (const int64_t n : {0, 1, 2, 33, 127}) {
      for (const int64_t outputs : {1, 2, 31, 33, 70}) {
        const std::vector<float> z = NormalValues(n * outputs, 5);
        std::vector<float> targets = NormalValues(n * outputs, 6);
        if (kind == LossKind::kBce) {
          std::ranges::for_each(targets, [](float& t) { t = t > 0 ? 1.0F : 0.0F; });
        }
        const Found found = Compute(
            {.n = n, .classes = outputs, .kind = kind, .delta = kDelta}, z, WordsOf(targets));
        Values x(z.begin(), z.end());
        const double loss = PlainSum(kind, x, targets, static_cast<double>(kDelta));
        const auto where = testing::Message()
                           << static_cast<int>(kind) << ": " << n << " of " << outputs;
        EXPECT_NEAR(found.result.loss_sum, loss, 1e-6 * (1 + loss)) << where;
        double squares = 0;
        double distances = 0;
        Values gradient;
        for (size_t i = 0; i < x.size(); ++i) {
          const double error = x[i] - static_cast<double>(targets[i]);
          squares += error * error;
          distances += std::fabs(error);
          constexpr double kStep = 1e-6;
          const double t = static_cast<double>(targets[i]);
          gradient.push_back(
              (PlainElement(kind, x[i] + kStep, t, 0.75) -
               PlainElement(kind, x[i] - kStep, t, 0.75)) /
              (2 * kStep * static_cast<double>(x.size())));
        }
        EXPECT_NEAR(found.result.squared_error, squares, 1e-9 * (1 + squares)) << where;
        EXPECT_NEAR(found.result.absolute_error, distances, 1e-9 * (1 + distances)) << where;
        EXPECT_LE(NormalisedError(found.dz, gradient), 1e-11) << where;
      }
    }
  }
}

TEST_F(LossParity, SmoothingAndWeightsOfClassesEqualTheDefinition) {
  for (const float smoothing : {0.0F, 0.1F, 0.5F}) {
    for (const bool has_weights : {false, true}) {
      for (const int64_t classes : {2, 10, 33, 70}) {
        constexpr int64_t kRows = 37;
        const std::vector<float> z = NormalValues(kRows * classes, 5);
        std::vector<uint32_t> labels;
        std::vector<float> weights(static_cast<size_t>(classes), 1.0F);
        for (size_t j = 0; j < weights.size() && has_weights; ++j) {
          weights[j] = 0.25F * static_cast<float>(j % 5);
        }
        double divisor = 0;
        for (int64_t i = 0; i < kRows; ++i) {
          labels.push_back(static_cast<uint32_t>(i * 7 % classes));
          divisor += static_cast<double>(weights[labels.back()]);
        }
        // The definition's q has w[label] at the label, and w[j] in the part that is spread; what
        // PlainClassSum takes apart is the same by w[j], since at the label j is the label.
        const Found found = Compute(
            {.n = kRows, .classes = classes, .smoothing = smoothing},
            z,
            labels,
            has_weights ? weights : std::vector<float>(),
            divisor);
        Values x(z.begin(), z.end());
        const auto loss = [&] {
          return PlainClassSum(x, labels, static_cast<double>(smoothing), weights);
        };
        const double sum = loss();
        EXPECT_NEAR(found.result.loss_sum, sum, 1e-5 * (1 + sum)) << smoothing << " " << classes;
        for (size_t i = 0; i < x.size(); i += 5) {
          constexpr double kStep = 1e-5;
          const double before = x[i];
          x[i] = before + kStep;
          const double above = loss();
          x[i] = before - kStep;
          const double below = loss();
          x[i] = before;
          EXPECT_NEAR(found.dz[i], (above - below) / (2 * kStep * divisor), 1e-6)
              << smoothing << " " << classes << " " << i;
        }
      }
    }
  }
}

struct TorchCase {
  LossArgs args;
  std::vector<float> weights;
  double divisor;
  double loss;
  std::vector<double> gradient;
};

const std::vector<float> kOutputs = {
    0.5F, -1.25F, 2, 0.75F, 3, -0.5F, -2, 0.125F, 1.5F, 4, -0.25F, 0};
const std::vector<float> kTargets = {0.25F, -1, -1, 0.75F, 1.5F, 0.5F, -2.5F, 0, 1, 1, 2, -0.125F};

void ExpectTorch(const TorchCase& c, const LossResult& result, const std::vector<float>& dz) {
  EXPECT_NEAR(result.loss_sum / c.divisor, c.loss, 1e-6);
  EXPECT_LE(NormalisedError(dz, c.gradient), 1e-12);
}

/// torch.nn.functional of PyTorch 2.15, reduction "mean".
TEST_F(LossParity, LossesOfNumbersAreThoseOfPyTorch) {
  const LossArgs three{.n = 4, .classes = 3};
  const auto with = [&](LossKind kind) {
    LossArgs args = three;
    args.kind = kind;
    args.delta = 0.75F;
    return args;
  };
  const std::vector<TorchCase> cases = {
      {with(LossKind::kMse),
       {},
       12,
       2.24739575,
       {0.0416666679,
        -0.0416666679,
        0.5,
        0,
        0.25,
        -0.166666672,
        0.0833333358,
        0.020833334,
        0.0833333358,
        0.5,
        -0.375,
        0.020833334}},
      {with(LossKind::kMae),
       {},
       12,
       1.04166663,
       {0.0833333358,
        -0.0833333358,
        0.0833333358,
        0,
        0.0833333358,
        -0.0833333358,
        0.0833333358,
        0.0833333358,
        0.0833333358,
        0.0833333358,
        -0.0833333358,
        0.0833333358}},
      {with(LossKind::kHuber),
       {},
       12,
       0.58203125,
       {0.020833334,
        -0.020833334,
        0.0625,
        0,
        0.0625,
        -0.0625,
        0.0416666679,
        0.010416667,
        0.0416666679,
        0.0625,
        -0.0625,
        0.010416667}},
  };
  for (const TorchCase& c : cases) {
    const Found found = Compute(c.args, kOutputs, WordsOf(kTargets));
    ExpectTorch(c, found.result, found.dz);
  }
  const TorchCase bce{
      with(LossKind::kBce),
      {},
      12,
      1.02172053,
      {-0.0314617194,
       0.0185583439,
       -0.00993358064,
       0.0565982275,
       -0.00395215536,
       0.0314617231,
       -0.0733997598,
       -0.0390658826,
       0.068131201,
       0.0818344802,
       0.036485292,
       -0.0416666679}};
  LossArgs args = bce.args;
  args.counts_near = true;
  const Found found = Compute(args, kOutputs, WordsOf({1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 1}));
  ExpectTorch(bce, found.result, found.dz);
  EXPECT_EQ(found.result.correct, 7);
  EXPECT_EQ(found.result.near, 1) << "only the first sample has all labels right";
}

/// torch.nn.functional.cross_entropy, of labels 2, 1, 0, 2.
TEST_F(LossParity, CrossEntropyIsThatOfPyTorch) {
  const std::vector<float> weights = {0.5F, 2, 1.25F};
  const LossArgs plain{.n = 4, .classes = 3};
  LossArgs smooth = plain;
  smooth.smoothing = 0.1F;
  const std::vector<TorchCase> cases = {
      {plain,
       {},
       4,
       2.03526759,
       {0.0442050435,
        0.0076816855,
        -0.0518867373,
        0.0232034922,
        -0.0298514068,
        0.00664791139,
        -0.244116038,
        0.0492658429,
        0.194850191,
        0.242112011,
        0.00345354178,
        -0.245565563}},
      {smooth,
       {},
       4,
       2.04464245,
       {0.0358717106,
        -0.000651648268,
        -0.0352200717,
        0.0148701584,
        -0.0131847411,
        -0.00168542238,
        -0.227449372,
        0.04093251,
        0.186516851,
        0.23377867,
        -0.00487979222,
        -0.228898898}},
      {plain,
       weights,
       5,
       1.49195695,
       {0.0442050435,
        0.0076816855,
        -0.0518867373,
        0.0371255875,
        -0.0477622524,
        0.0106366584,
        -0.0976464152,
        0.0197063368,
        0.0779400766,
        0.242112011,
        0.00345354178,
        -0.245565563}},
      {smooth,
       weights,
       5,
       1.56378806,
       {0.0408717096,
        -0.00565164816,
        -0.0352200717,
        0.0324000418,
        -0.0343045071,
        0.00190444873,
        -0.0906267017,
        0.00932895299,
        0.0812977478,
        0.238778681,
        -0.00987979211,
        -0.228898898}},
  };
  for (const TorchCase& c : cases) {
    const Found found = Compute(c.args, kOutputs, {2, 1, 0, 2}, c.weights, c.divisor);
    ExpectTorch(c, found.result, found.dz);
  }
}

TEST_F(LossParity, FarOutputsDoNotOverflow) {
  const std::vector<float> z = {500, -500, 500, -500};
  const Found bce =
      Compute({.n = 1, .classes = 4, .kind = LossKind::kBce}, z, WordsOf({1, 0, 0, 1}));
  EXPECT_DOUBLE_EQ(bce.result.loss_sum, 1000);
  EXPECT_EQ(bce.dz, (std::vector<float>{0, 0, 0.25F, -0.25F}));
  const Found huber = Compute(
      {.n = 1, .classes = 4, .kind = LossKind::kHuber},
      {3e38F, 0, 0, 0},
      WordsOf({-3e38F, 0, 0, 0}));
  EXPECT_TRUE(std::isfinite(huber.result.loss_sum));
  EXPECT_EQ(huber.dz[0], 0.25F);
}

TEST_F(LossParity, NanShowsInLossAndGradientAndIsNoHit) {
  for (const LossKind kind : kNumberLosses) {
    const Found found = Compute(
        {.n = 1, .classes = 2, .kind = kind, .counts_near = true}, {kLossNan, 1}, WordsOf({1, 1}));
    EXPECT_TRUE(std::isnan(found.result.loss_sum)) << static_cast<int>(kind);
    EXPECT_TRUE(std::isnan(found.dz[0])) << static_cast<int>(kind);
    EXPECT_EQ(found.result.correct, kind == LossKind::kBce ? 1 : 0);
    EXPECT_EQ(found.result.near, 0);
  }
}

TEST_F(LossParity, NearHitsAreThoseAmongTheFiveLargest) {
  // Ranks of the labels: 4, 5, and, of equal outputs, 4 and 5.
  const std::vector<float> z = {9, 8, 7, 6, 5, 4, 3, 9, 8, 7, 6, 5, 4, 3,
                                2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  const Found found = Compute({.n = 4, .classes = 7, .counts_near = true}, z, {4, 5, 4, 5});
  EXPECT_EQ(found.result.near, 2);
  EXPECT_EQ(Compute({.n = 4, .classes = 7}, z, {4, 5, 4, 5}).result.near, 0) << "nobody asked";
}

TEST_F(LossParity, ADivisorOfNothingIsNoDivision) {
  const Found found = Compute({.n = 1, .classes = 2}, {1, 2}, {0}, {0.0F, 1.0F}, /*divisor=*/0);
  EXPECT_EQ(found.result.loss_sum, 0);
  EXPECT_EQ(found.dz, (std::vector<float>{0, 0}));
}

}  // namespace
}  // namespace ps::kernels::test
