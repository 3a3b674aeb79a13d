#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/optimizer_combine.h"
#include "tests/kernels/on_device.h"
#include "tests/kernels/op_runner.h"

// What a stream does besides ops, on the backend under test, against plain loops.

namespace ps::kernels::test {
namespace {

constexpr float kQuietNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kStreamSizes[] = {0, 1, 31, 32, 33, 127, 1031, 70001};

class StreamParity : public testing::Test {
 protected:
  std::unique_ptr<Stream> stream_ = BackendUnderTest()->MakeStream().value();
};

/// Where vectors begin, in floats from an aligned address: devices take four elements at a time
/// where all that an element needs is aligned alike.
struct Beginnings {
  size_t a;
  size_t b;
  size_t filled;
  size_t copied;
};

constexpr Beginnings kBeginnings[] = {
    {0, 0, 0, 0},
    {1, 1, 1, 1},
    {2, 2, 2, 2},
    {3, 3, 3, 3},
    {1, 2, 3, 1},
    {0, 1, 1, 0},
    {3, 0, 2, 2}};

TEST_F(StreamParity, ElementwiseWorkReachesEveryElementAndNoOther) {
  for (const Beginnings& begin : kBeginnings) {
    for (const int64_t n : {0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 127, 1031, 70001}) {
      const std::vector<float> a = NormalValues(n + 1, 1);  // one more, not to be touched
      const std::vector<float> b = NormalValues(n + 1, 2);
      const OnDevice<float> device_a(stream_.get(), a, begin.a);
      const OnDevice<float> device_b(stream_.get(), b, begin.b);
      const OnDevice<float> filled(stream_.get(), a, begin.filled);
      const OnDevice<float> copied(stream_.get(), a, begin.copied);
      const OnDevice<float> across(stream_.get(), a, begin.filled);
      const OnDevice<float> less(stream_.get(), a, begin.copied);
      const OnDevice<float> rest(stream_.get(), std::vector<float>(a.size(), 1), begin.b);
      stream_->Copy(device_b.data(), copied.data(), n);
      stream_->CopyAcross(device_b.data(), across.data(), n);
      stream_->Fill(0.5F, filled.data(), n);
      stream_->Add(device_a.data(), device_b.data(), device_a.data(), n);
      stream_->Subtract(device_b.data(), across.data(), less.data(), n);
      stream_->Subtract(rest.data(), device_b.data(), rest.data(), n);
      stream_->Scale(0.25F, device_b.data(), n);
      std::vector<float> sum = a;
      std::vector<float> scaled = b;
      std::vector<float> constant = a;
      std::vector<float> copy = a;
      std::vector<float> nothing = a;
      std::vector<float> of_one(a.size(), 1);
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        sum[i] += b[i];
        scaled[i] *= 0.25F;
        constant[i] = 0.5F;
        copy[i] = b[i];
        nothing[i] = 0;
        of_one[i] = 1 - b[i];
      }
      EXPECT_EQ(device_a.Values(), sum) << n;
      EXPECT_EQ(less.Values(), nothing) << n;
      EXPECT_EQ(rest.Values(), of_one) << n;
      EXPECT_EQ(device_b.Values(), scaled) << n;
      EXPECT_EQ(filled.Values(), constant) << n;
      EXPECT_EQ(copied.Values(), copy) << n;
      EXPECT_EQ(across.Values(), copy) << n;
    }
  }
}

/// More tensors than one launch has room for, of all sizes.
TEST_F(StreamParity, EachTensorOfManySaysWhetherItIsFinite) {
  constexpr size_t kTensors = 400;
  std::vector<std::unique_ptr<OnDevice<float>>> tensors;
  std::vector<std::span<const float>> spans;
  std::vector<uint32_t> expected;
  for (size_t i = 0; i < kTensors; ++i) {
    std::vector<float> values(i % 7 == 0 ? 0 : i % 50 == 1 ? 70001 : i, 1e38F);
    const bool is_bad = !values.empty() && i % 3 == 0;
    if (is_bad) {
      values[i % 2 == 0 ? values.size() - 1 : values.size() / 2] = i % 9 == 0   ? -kInf
                                                                   : i % 6 == 0 ? kInf
                                                                                : kQuietNan;
    }
    expected.push_back(is_bad ? 1 : 0);
    tensors.push_back(std::make_unique<OnDevice<float>>(stream_.get(), values, i % 4));
    spans.emplace_back(tensors.back()->data(), values.size());
  }
  std::vector<uint32_t> before(kTensors + 1, 7);
  const OnDevice<uint32_t> flags(stream_.get(), before, 1);
  stream_->CheckFinite(spans, flags.data());
  expected.push_back(7);
  EXPECT_EQ(flags.Values(), expected) << "and nothing behind them";
  stream_->CheckFinite({}, flags.data());
  EXPECT_EQ(flags.Values(), expected);
}

TEST_F(StreamParity, AveragesMoveWithTheBitsOfTheCpu) {
  constexpr size_t kTensors = 150;
  std::vector<std::unique_ptr<OnDevice<float>>> averages;
  std::vector<std::unique_ptr<OnDevice<float>>> observed;
  std::vector<std::vector<float>> expected;
  std::vector<AverageMove> moves;
  for (size_t i = 0; i < kTensors; ++i) {
    const auto n = static_cast<int64_t>(i * i % 700);
    const float rate = 0.01F * static_cast<float>(i + 1);
    std::vector<float> w = NormalValues(n, i);
    std::vector<float> x = NormalValues(n, 1000 + i);
    if (n > 3) {
      w[1] = 3e38F;
      x[1] = -3e38F;  // their difference is infinite, so w stays
      x[2] = kQuietNan;
    }
    averages.push_back(std::make_unique<OnDevice<float>>(stream_.get(), w, 1));
    observed.push_back(std::make_unique<OnDevice<float>>(stream_.get(), x, 2));
    moves.push_back({observed.back()->data(), averages.back()->data(), n, rate});
    MoveTowards(x.data(), rate, w.data(), n);
    expected.push_back(w);
  }
  stream_->MoveAverages(moves);
  for (size_t i = 0; i < kTensors; ++i) {
    EXPECT_EQ(averages[i]->Values(), expected[i]) << i;
  }
}

TEST_F(StreamParity, SquaredNormIsThatOfDoubles) {
  for (const int64_t n : kStreamSizes) {
    const std::vector<float> x = NormalValues(n, 3);
    const OnDevice<float> device(stream_.get(), x, 1);
    const OnDevice<double> sum(stream_.get(), {-1});
    double expected = 0;
    for (const float value : x) {
      expected += static_cast<double>(value) * static_cast<double>(value);
    }
    stream_->SquaredNorm(device.data(), n, sum.data());
    const double first = sum.Values()[0];
    EXPECT_NEAR(first, expected, 1e-12 * expected) << n;
    stream_->SquaredNorm(device.data(), n, sum.data());
    EXPECT_EQ(sum.Values()[0], first) << "the same bits again";
  }
}

TEST_F(StreamParity, SquaredNormKeepsNanAndDoesNotOverflow) {
  std::vector<float> x(1000, 3e38F);
  const OnDevice<double> sum(stream_.get(), {0});
  const OnDevice<float> large(stream_.get(), x);
  stream_->SquaredNorm(large.data(), 1000, sum.data());
  EXPECT_TRUE(std::isfinite(sum.Values()[0]));
  x[777] = kQuietNan;
  const OnDevice<float> with_nan(stream_.get(), x);
  stream_->SquaredNorm(with_nan.data(), 1000, sum.data());
  EXPECT_TRUE(std::isnan(sum.Values()[0]));
}

TEST_F(StreamParity, VectorsAreClippedToACommonNorm) {
  struct {
    std::vector<double> squares;
    float norm_max;
    float factor;
  } const cases[] = {
      {{9, 16}, 10, 1},
      {{9, 16}, 5, 1},
      {{9, 16}, 1, 0.2F},
      {{0, 0.25, 0}, 0.125F, 0.25F},
      {{1e300, 1e300}, 1, static_cast<float>(1 / std::sqrt(2e300))},
      {{1, std::numeric_limits<double>::infinity()}, 1, 1},
      {{1, std::numeric_limits<double>::quiet_NaN()}, 1, 1}};

  for (const auto& c : cases) {
    const OnDevice<double> squares(stream_.get(), c.squares);
    const OnDevice<float> factor(stream_.get(), {kQuietNan});
    const OnDevice<float> x(stream_.get(), {3, -4, 0.1F, 7}, 1);
    stream_->ClipFactor(
        squares.data(), static_cast<int64_t>(c.squares.size()), c.norm_max, factor.data());
    stream_->ScaleBy(factor.data(), x.data(), 3);
    EXPECT_EQ(factor.Values()[0], c.factor);
    EXPECT_EQ(x.Values(), (std::vector<float>{3 * c.factor, -4 * c.factor, 0.1F * c.factor, 7}));
  }
}

TEST_F(StreamParity, ARecordingDoesItsWorkAgainWithTheValuesOfThen) {
  if (!stream_->BeginRecording()) {
    GTEST_SKIP() << "this backend keeps no work";
  }
  static_cast<void>(stream_->EndRecording());  // of nothing
  const OnDevice<float> x(stream_.get(), {1, 2, 3});
  const OnDevice<float> y(stream_.get(), {0, 0, 0});
  ASSERT_TRUE(stream_->Synchronize().ok());
  ASSERT_TRUE(stream_->BeginRecording());
  stream_->Add(x.data(), y.data(), y.data(), 3);
  stream_->Scale(2, x.data(), 3);
  const std::unique_ptr<Recording> recording = stream_->EndRecording();
  EXPECT_EQ(x.Values(), (std::vector<float>{1, 2, 3})) << "not done yet";
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(stream_->CanReplay(*recording));
    stream_->Replay(*recording);
  }
  EXPECT_EQ(x.Values(), (std::vector<float>{8, 16, 24}));
  EXPECT_EQ(y.Values(), (std::vector<float>{7, 14, 21}));
  static_cast<void>(BackendUnderTest()->AllocateDevice(4).value());
  EXPECT_FALSE(stream_->CanReplay(*recording)) << "memory was freed since";
}

TEST_F(StreamParity, Bf16IsRoundedToTheNearestTiesToEven) {
  const auto from_bits = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  const std::vector<float> x = {
      0,
      -0.0F,
      1,
      from_bits(0x3f808000),  // half-way, down to even
      from_bits(0x3f818000),  // half-way, up to even
      from_bits(0x3f808001),
      from_bits(0x3f807fff),
      from_bits(0x7f7fffff),  // the largest rounds to infinity
      -kInf,
      kQuietNan,
      from_bits(0x7f800001),  // a NaN whose mantissa is cut off
      from_bits(0x00000001),
      from_bits(0x0000ffff)};
  const std::vector<uint16_t> expected = {
      0, 0x8000, 0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x3f80, 0x7f80, 0xff80, 0x7fc0, 0x7fc0, 0, 1};
  const OnDevice<float> device(stream_.get(), x, 1);
  const OnDevice<uint16_t> packed(stream_.get(), std::vector<uint16_t>(x.size()), 1);
  stream_->PackBf16(device.data(), packed.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(packed.Values(), expected);
  stream_->PackBf16(device.data(), packed.data(), 0);
  EXPECT_EQ(packed.Values(), expected);
}

TEST_F(StreamParity, Bf16ReachesEveryElementAndNoOther) {
  for (const int64_t n : {0, 1, 3, 4, 5, 31, 32, 33, 127, 1031, 70001}) {
    const std::vector<float> x = NormalValues(n + 1, 6);  // one more, not to be touched
    std::vector<uint16_t> expected;
    for (const float value : x) {  // none is NaN
      const auto bits = std::bit_cast<uint32_t>(value);
      expected.push_back(static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U));
    }
    expected.back() = 0xabcd;
    for (const size_t begin : {0U, 1U, 2U, 3U}) {
      for (const size_t begin_packed : {begin, begin + 2, begin + 4}) {
        const OnDevice<float> device(stream_.get(), x, begin);
        const OnDevice<uint16_t> packed(
            stream_.get(), std::vector<uint16_t>(x.size(), 0xabcd), begin_packed);
        stream_->PackBf16(device.data(), packed.data(), n);
        EXPECT_EQ(packed.Values(), expected) << n << " from " << begin << ", " << begin_packed;
      }
    }
  }
}

/// The definition, in double. Returns the loss and writes the gradient of the mean.
double PlainLoss(
    const std::vector<float>& z, const std::vector<uint32_t>& labels, Values* gradient) {
  const size_t classes = labels.empty() ? 0 : z.size() / labels.size();
  double loss = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const float* row = z.data() + i * classes;
    const double highest = *std::max_element(row, row + classes);
    double sum = 0;
    for (size_t j = 0; j < classes; ++j) {
      sum += std::exp(row[j] - highest);
    }
    loss += std::log(sum) - (row[labels[i]] - highest);
    for (size_t j = 0; j < classes; ++j) {
      const double probability = std::exp(row[j] - highest) / sum;
      gradient->push_back(
          (probability - (j == labels[i] ? 1 : 0)) / static_cast<double>(labels.size()));
    }
  }
  return loss;
}

TEST_F(StreamParity, LossAndItsGradientEqualTheDefinition) {
  for (const int64_t n : {0, 1, 2, 31, 32, 33, 127}) {
    for (const int64_t classes : {1, 2, 10, 31, 32, 33, 300}) {  // more: wide_loss_test.cc
      const std::vector<float> z = NormalValues(n * classes, 5);
      std::vector<uint32_t> labels;
      for (int64_t i = 0; i < n; ++i) {
        labels.push_back(static_cast<uint32_t>(i * 7 % classes));
      }
      Values gradient;
      const double loss = PlainLoss(z, labels, &gradient);
      const OnDevice<float> logits(stream_.get(), z, 1);
      const OnDevice<uint32_t> device_labels(stream_.get(), labels);
      const OnDevice<float> dz(stream_.get(), std::vector<float>(z.size(), kQuietNan), 1);
      const OnDevice<LossResult> result(stream_.get(), {{-1, -1}});
      LossArgs args{n, classes, logits.data(), device_labels.data(), dz.data(), result.data()};
      stream_->ComputeLoss(args);
      const LossResult first = result.Values()[0];
      EXPECT_NEAR(first.loss_sum, loss, 1e-5 * (1 + loss)) << n << " of " << classes;
      EXPECT_LE(NormalisedError(dz.Values(), gradient), 1e-11) << n << " of " << classes;
      args.dz = nullptr;
      stream_->ComputeLoss(args);
      EXPECT_EQ(result.Values()[0].loss_sum, first.loss_sum) << n << " of " << classes;
      args.dz = logits.data();
      stream_->ComputeLoss(args);
      EXPECT_EQ(logits.Values(), dz.Values()) << "in place, " << n << " of " << classes;
    }
  }
}

TEST_F(StreamParity, LossCountsTheFirstLargestLogitAndNoNan) {
  const std::vector<float> z = {0, 2, 2, 0, 2, 2, 1, kQuietNan, 0, kInf, 0, 0, 1e30F, 0, -1e30F};
  const OnDevice<float> logits(stream_.get(), z);
  const OnDevice<uint32_t> labels(stream_.get(), {1, 2, 0, 0, 0});
  const OnDevice<LossResult> result(stream_.get(), {{-1, -1}});
  // The first row is a hit, the second is not: of equal logits the first counts.
  stream_->ComputeLoss({2, 3, logits.data(), labels.data(), nullptr, result.data()});
  EXPECT_EQ(result.Values()[0].correct, 1);
  // A NaN is no hit; it and infinity show in the loss.
  for (const int64_t row : {2, 3}) {
    stream_->ComputeLoss(
        {1, 3, logits.data() + 3 * row, labels.data() + row, nullptr, result.data()});
    EXPECT_TRUE(std::isnan(result.Values()[0].loss_sum)) << row;
  }
  stream_->ComputeLoss({1, 3, logits.data() + 6, labels.data() + 2, nullptr, result.data()});
  EXPECT_EQ(result.Values()[0].correct, 0);
  // Large logits do not overflow.
  stream_->ComputeLoss({1, 3, logits.data() + 12, labels.data() + 4, nullptr, result.data()});
  EXPECT_EQ(result.Values()[0].loss_sum, 0);
}

TEST_F(StreamParity, ARowWithoutLabelCountsForNothing) {
  const OnDevice<float> logits(stream_.get(), {0, 2, 2, kQuietNan, 0, 1, 0, 1, 0});
  const OnDevice<uint32_t> labels(stream_.get(), {1, kNoLabel, 1});
  const OnDevice<float> dz(stream_.get(), std::vector<float>(9, kQuietNan));
  const OnDevice<double> divisor(stream_.get(), {2});
  const OnDevice<LossResult> result(stream_.get(), {{-1, -1}});
  stream_->ComputeLoss(
      {3, 3, logits.data(), labels.data(), dz.data(), result.data(), divisor.data()});
  Values gradient;
  const double loss = PlainLoss({0, 2, 2, 0, 1, 0}, {1, 1}, &gradient);
  EXPECT_NEAR(result.Values()[0].loss_sum, loss, 1e-6);
  EXPECT_EQ(result.Values()[0].correct, 2);
  gradient.insert(gradient.begin() + 3, 3, 0.0);
  EXPECT_LE(NormalisedError(dz.Values(), gradient), 1e-11);
}

TEST_F(StreamParity, AnEventSaysWhenItsStreamCameThere) {
  const std::unique_ptr<Event> event = BackendUnderTest()->MakeEvent().value();
  EXPECT_TRUE(event->IsReached());
  const std::unique_ptr<Stream> other = BackendUnderTest()->MakeStream().value();
  const OnDevice<float> x(stream_.get(), {1, 2, 3});
  stream_->Scale(2, x.data(), 3);
  stream_->Record(event.get());
  other->WaitFor(*event);
  other->Scale(2, x.data(), 3);
  const Status status = other->Synchronize();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(event->IsReached());
  EXPECT_TRUE(event->Wait().ok());
  EXPECT_EQ(x.Values(), (std::vector<float>{4, 8, 12}));
}

TEST_F(StreamParity, TooMuchMemoryIsAnErrorNotACrash) {
  const auto result = BackendUnderTest()->AllocateDevice(size_t{1} << 60);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(result.status().message().find("1024.0 PiB"), std::string::npos) << result.status();
  // The stream works as before.
  const OnDevice<float> x(stream_.get(), {1});
  EXPECT_EQ(x.Values(), std::vector<float>{1});
}

}  // namespace
}  // namespace ps::kernels::test
