// Convolutions whose channels are in groups, over all that may meet in one: against plain loops in
// double, and against a convolution for each group.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/kernels/op_runner.h"

namespace ps::kernels::test {
namespace {

constexpr uint64_t kGroupedSeed = 41;
constexpr double kGroupedNmseMax = 1e-11;

struct Channels {
  int64_t groups;
  int64_t in;
  int64_t out;
};

// Some of each group; depthwise, with one and with two outputs of a channel; fours of channels.
constexpr Channels kChannels[] = {{2, 4, 6}, {3, 9, 3}, {5, 5, 5}, {3, 3, 6}, {2, 16, 8}};

OpCase GroupedCase(int64_t n, const Conv2dOptions& o) {
  OpCase c;
  c.kind = "conv2d";
  c.n = n;
  c.in_elements = o.in_channels * o.in_height * o.in_width;
  c.out_elements = o.out_channels * WindowCount(o.in_height, o.kernel, o.stride, o.padding) *
                   WindowCount(o.in_width, o.kernel, o.stride, o.padding);
  c.parameter_sizes = {o.out_channels * o.in_channels / o.groups * o.kernel * o.kernel};
  if (o.bias) {
    c.parameter_sizes.push_back(o.out_channels);
  }
  c.spec = o;
  return c;
}

/// Calls test(case, options) for every stride, padding, kernel, batch and channels, with a bias
/// where the batch is odd.
template <typename Test>
void ForAllGrouped(const Test& test) {
  for (const Channels& channels : kChannels) {
    for (const int64_t kernel : {1, 2, 3, 5}) {
      for (const int64_t stride : {1, 2, 3}) {
        for (const int64_t padding : {0, 1, 2}) {
          for (const int64_t n : {1, 2}) {
            const Conv2dOptions o{
                .in_channels = channels.in,
                .in_height = 6,
                .in_width = 5,
                .out_channels = channels.out,
                .kernel = kernel,
                .stride = stride,
                .padding = padding,
                .bias = n % 2 == 1,
                .groups = channels.groups};
            SCOPED_TRACE(
                testing::Message() << channels.in << " to " << channels.out << " channels in "
                                   << channels.groups << " groups, kernel " << kernel << ", stride "
                                   << stride << ", padding " << padding << ", batch " << n);
            test(GroupedCase(n, o), o);
          }
        }
      }
    }
  }
}

/// What a step computes.
struct Results {
  Values y;
  Values dx;
  Values dw;
  Values db;
};

Results ReferenceStep(const OpRunner& runner, const Conv2dOptions& o) {
  const int64_t out_height = (o.in_height + 2 * o.padding - o.kernel) / o.stride + 1;
  const int64_t out_width = (o.in_width + 2 * o.padding - o.kernel) / o.stride + 1;
  const int64_t in_each = o.in_channels / o.groups;
  const int64_t out_each = o.out_channels / o.groups;
  Results r{
      Values(runner.y.size()),
      Values(runner.x.size()),
      Values(runner.params[0].size()),
      Values(static_cast<size_t>(o.out_channels))};
  const auto add_taps = [&](int64_t sample, int64_t row, int64_t column, int64_t oc) {
    const auto at_y = static_cast<size_t>(
        ((sample * out_height + row) * out_width + column) * o.out_channels + oc);
    const auto dy = static_cast<double>(runner.dy[at_y]);
    r.y[at_y] = o.bias ? static_cast<double>(runner.params[1][static_cast<size_t>(oc)]) : 0.0;
    r.db[static_cast<size_t>(oc)] += dy;
    for (int64_t tap = 0; tap < in_each * o.kernel * o.kernel; ++tap) {
      const int64_t of_group = tap / (o.kernel * o.kernel);
      const int64_t ih = row * o.stride - o.padding + tap / o.kernel % o.kernel;
      const int64_t iw = column * o.stride - o.padding + tap % o.kernel;
      if (ih < 0 || ih >= o.in_height || iw < 0 || iw >= o.in_width) {
        continue;
      }
      const int64_t ic = oc / out_each * in_each + of_group;
      const auto at_x =
          static_cast<size_t>(((sample * o.in_height + ih) * o.in_width + iw) * o.in_channels + ic);
      const auto at_w = static_cast<size_t>(oc * in_each * o.kernel * o.kernel + tap);
      r.y[at_y] += static_cast<double>(runner.x[at_x]) * runner.params[0][at_w];
      r.dx[at_x] += dy * runner.params[0][at_w];
      r.dw[at_w] += dy * runner.x[at_x];
    }
  };
  for (int64_t sample = 0; sample < runner.c.n; ++sample) {
    for (int64_t row = 0; row < out_height; ++row) {
      for (int64_t column = 0; column < out_width; ++column) {
        for (int64_t oc = 0; oc < o.out_channels; ++oc) {
          add_taps(sample, row, column, oc);
        }
      }
    }
  }
  return r;
}

TEST(GroupedConv2dTest, OutputAndGradientsEqualPlainLoopsInDouble) {
  int count = 0;
  ForAllGrouped([&](const OpCase& c, const Conv2dOptions& o) {
    OpRunner runner(c, kGroupedSeed);
    runner.Prepare(true);
    runner.Forward(true);
    runner.Backward();
    const Results expected = ReferenceStep(runner, o);
    EXPECT_LE(NormalisedError(runner.y, expected.y), kGroupedNmseMax);
    EXPECT_LE(NormalisedError(runner.dx, expected.dx), kGroupedNmseMax);
    EXPECT_LE(NormalisedError(runner.grads[0], expected.dw), kGroupedNmseMax);
    if (o.bias) {
      EXPECT_LE(NormalisedError(runner.grads[1], expected.db), kGroupedNmseMax);
    }
    ++count;
  });
  EXPECT_EQ(count, 360);
}

/// Channels `first` to `first + some` of rows of `all`.
std::vector<float> Cut(std::span<const float> values, int64_t all, int64_t first, int64_t some) {
  std::vector<float> cut;
  for (size_t row = 0; row < values.size(); row += static_cast<size_t>(all)) {
    const auto part = values.subspan(row + static_cast<size_t>(first), static_cast<size_t>(some));
    cut.insert(cut.end(), part.begin(), part.end());
  }
  return cut;
}

/// A convolution of one group's channels.
OpCase CaseOfOneGroup(int64_t n, Conv2dOptions o) {
  o.in_channels /= o.groups;
  o.out_channels /= o.groups;
  o.groups = 1;
  return InPrecision(GroupedCase(n, o), o.precision);
}

/// What all groups computed in one op, and each by itself, in the same order.
struct BothWays {
  std::vector<float> together;
  std::vector<float> alone;

  void Append(const std::vector<float>& of_all, const std::vector<float>& of_one) {
    together.insert(together.end(), of_all.begin(), of_all.end());
    alone.insert(alone.end(), of_one.begin(), of_one.end());
  }
};

/// Computes the group by itself and appends it: output, input's gradient, those of parameters.
void AppendGroup(
    const OpRunner& whole, const Conv2dOptions& o, int64_t group, std::vector<BothWays>* both) {
  const OpCase c = CaseOfOneGroup(whole.c.n, o);
  const int64_t in = o.in_channels / o.groups;
  const int64_t out = o.out_channels / o.groups;
  const auto part_of = [&](const std::vector<float>& of_all, size_t size) {
    const auto own = static_cast<int64_t>(size);
    return Cut(of_all, own * o.groups, group * own, own);
  };
  OpRunner one(c, kGroupedSeed);
  one.x = Cut(whole.x, o.in_channels, group * in, in);
  one.dy = Cut(whole.dy, o.out_channels, group * out, out);
  for (size_t i = 0; i < one.params.size(); ++i) {
    one.params[i] = part_of(whole.params[i], one.params[i].size());
  }
  one.Prepare(true);
  one.Forward(true);
  one.Backward();
  both->resize(2 + one.grads.size());
  both->at(0).Append(Cut(whole.y, o.out_channels, group * out, out), one.y);
  both->at(1).Append(Cut(whole.dx, o.in_channels, group * in, in), one.dx);
  for (size_t i = 0; i < one.grads.size(); ++i) {
    both->at(2 + i).Append(part_of(whole.grads[i], one.grads[i].size()), one.grads[i]);
  }
}

TEST(GroupedConv2dTest, EachGroupIsAConvolutionByItself) {
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    for (const Channels& channels : kChannels) {
      const Conv2dOptions o{
          .in_channels = channels.in,
          .in_height = 7,
          .in_width = 6,
          .out_channels = channels.out,
          .kernel = 3,
          .stride = 2,
          .padding = 1,
          .precision = precision,
          .groups = channels.groups};
      const OpCase c = InPrecision(GroupedCase(3, o), precision);
      OpRunner whole(c, kGroupedSeed);
      whole.Prepare(true);
      whole.Forward(true);
      whole.Backward();
      std::vector<BothWays> both;
      for (int64_t group = 0; group < o.groups; ++group) {
        AppendGroup(whole, o, group, &both);
      }
      for (size_t i = 0; i < both.size(); ++i) {
        EXPECT_LE(NormalisedError(both[i].together, ToDouble(both[i].alone)), kGroupedNmseMax)
            << c << ", " << channels.in << " to " << channels.out << " channels in " << o.groups
            << " groups, result " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ps::kernels::test
