// In each sample, the channels c of group g in all positions p have a mean and a (biased) variance:
//
//   forward   y = gamma[c] * normal + beta[c], normal = (x - mean) * factor,
//             factor = 1 / sqrt(variance + epsilon)
//   backward  dbeta[c] = sum of dy,  dgamma[c] = sum of dy * normal, over samples and positions
//             dx = factor * (dy * gamma - mean over the group of dy * gamma
//                            - normal * mean over the group of dy * gamma * normal)
//
// A row is a sample's channel. Sums over positions are made for each row, and those of a group's
// rows added up; mean and factor are kept for each row, so that no element has to find its group.

#pragma once

#include <cmath>
#include <utility>

#include "kernels/portable_op.h"
#include "ps/base/status.h"

namespace ps::kernels {

template <typename Device>
class GroupNormOp;

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, as torch.nn.GroupNorm: mean and
/// (biased) variance of each sample over the channels of a group and all positions.
///   params  gamma [c], beta [c]
struct GroupNormOptions {
  static constexpr bool kIsPortable = true;
  template <typename Device>
  using On = GroupNormOp<Device>;

  int64_t channels = 1;
  int64_t height = 1;
  int64_t width = 1;
  int64_t groups = 1;  // divides the channels
  float epsilon = 1e-5F;
  bool input_gradient = true;  // false: Backward is never asked for dx
};

namespace group_norm {

/// The rows of a group, and the values that it has in all.
struct Groups {
  /// The first row of a row's group.
  PS_ELEMENTWISE int64_t FirstOf(int64_t row) const {
    return row - row % channels + row % channels / width * width;
  }

  /// The sum over a row's group of term(row).
  template <typename Term>
  PS_ELEMENTWISE float Sum(int64_t row, const Term& term) const {
    const int64_t first = FirstOf(row);
    float sum = 0;
    for (int64_t i = first; i < first + width; ++i) {
      sum += term(i);
    }
    return sum;
  }

  int64_t channels;
  int64_t width;  // channels of a group
  float share;    // 1 / values
};

struct Value {
  PS_ELEMENTWISE void operator()(int64_t i, int64_t, int64_t, float (&values)[1]) const {
    values[0] = x[i];
  }

  const float* x;
};

struct SquaredDistance {
  PS_ELEMENTWISE void operator()(int64_t i, int64_t row, int64_t, float (&values)[1]) const {
    const float distance = x[i] - means[row];
    values[0] = distance * distance;
  }

  const float* x;
  const float* means;
};

struct AtRow {
  PS_ELEMENTWISE float operator()(int64_t row) const { return values[row]; }

  const float* values;
};

struct Mean {
  PS_ELEMENTWISE void operator()(int64_t row) const {
    means[row] = groups.share * groups.Sum(row, AtRow{sums});
  }

  Groups groups;
  const float* sums;
  float* means;
};

struct Factor {
  PS_ELEMENTWISE void operator()(int64_t row) const {
    const float variance = groups.share * groups.Sum(row, AtRow{sums});
    factors[row] = 1 / std::sqrt(variance + epsilon);
  }

  Groups groups;
  const float* sums;
  float epsilon;
  float* factors;
};

/// x without its group's mean and spread.
struct Normal {
  PS_ELEMENTWISE float operator()(int64_t i, int64_t row) const {
    return (x[i] - means[row]) * factors[row];
  }

  const float* x;
  const float* means;
  const float* factors;
};

struct Output {
  PS_ELEMENTWISE void operator()(int64_t i, int64_t row, int64_t c) const {
    y[i] = gamma[c] * normal(i, row) + beta[c];
  }

  Normal normal;
  const float* gamma;
  const float* beta;
  float* y;
};

/// dy, and dy * normal.
struct GradientTerms {
  PS_ELEMENTWISE void operator()(int64_t i, int64_t row, int64_t, float (&values)[2]) const {
    values[0] = dy[i];
    values[1] = dy[i] * normal(i, row);
  }

  Normal normal;
  const float* dy;
};

struct ParameterGradient {
  PS_ELEMENTWISE void operator()(int64_t c) const {
    float shift = 0;
    float scale = 0;
    for (int64_t row = c; row < rows; row += channels) {
      shift += shifts[row];
      scale += scales[row];
    }
    dbeta[c] = shift;
    dgamma[c] = scale;
  }

  int64_t rows;
  int64_t channels;
  const float* shifts;
  const float* scales;
  float* dbeta;
  float* dgamma;
};

struct Weighed {
  PS_ELEMENTWISE float operator()(int64_t row) const { return gamma[row % channels] * sums[row]; }

  const float* gamma;
  int64_t channels;
  const float* sums;
};

/// The two means over the group that its inputs' gradients lack.
struct GroupMeans {
  PS_ELEMENTWISE void operator()(int64_t row) const {
    means[row] = groups.share * groups.Sum(row, Weighed{gamma, groups.channels, shifts});
    projections[row] = groups.share * groups.Sum(row, Weighed{gamma, groups.channels, scales});
  }

  Groups groups;
  const float* gamma;
  const float* shifts;
  const float* scales;
  float* means;
  float* projections;
};

struct InputGradient {
  PS_ELEMENTWISE void operator()(int64_t i, int64_t row, int64_t c) const {
    dx[i] =
        normal.factors[row] * (dy[i] * gamma[c] - means[row] - normal(i, row) * projections[row]);
  }

  Normal normal;
  const float* dy;
  const float* gamma;
  const float* means;
  const float* projections;
  float* dx;
};

}  // namespace group_norm

template <typename Device>
class GroupNormOp final : public Op {
 public:
  GroupNormOp(const GroupNormOptions& options, Device device)
      : options_(options), device_(std::move(device)) {}

  Status Prepare(int64_t n, bool training) override {
    const int64_t rows = n * options_.channels;
    PS_TRY(device_.Grow(2 * rows, &moments_));
    return device_.ReserveScratch((training ? 4 : 1) * rows);
  }

  void Forward(const ForwardArgs& args) override {
    const ChannelShape shape = Shape(args.n);
    const int64_t rows = args.n * options_.channels;
    float* const means = moments_.floats();
    float* const factors = means + rows;
    float* const sums = device_.scratch();
    device_.template SumPositions<1>(shape, group_norm::Value{args.x}, sums);
    device_.ForEach(rows, group_norm::Mean{GroupsOf(), sums, means});
    device_.template SumPositions<1>(shape, group_norm::SquaredDistance{args.x, means}, sums);
    device_.ForEach(rows, group_norm::Factor{GroupsOf(), sums, options_.epsilon, factors});
    device_.ForChannels(
        shape,
        group_norm::Output{
            {args.x, means, factors}, args.params[0].data(), args.params[1].data(), args.y});
  }

  void Backward(const BackwardArgs& args) override {
    const ChannelShape shape = Shape(args.n);
    const int64_t rows = args.n * options_.channels;
    const float* const gamma = args.params[0].data();
    const group_norm::Normal normal{args.x, moments_.floats(), moments_.floats() + rows};
    float* const shifts = device_.scratch();
    float* const scales = shifts + rows;
    device_.template SumPositions<2>(shape, group_norm::GradientTerms{normal, args.dy}, shifts);
    device_.ForEach(
        options_.channels,
        group_norm::ParameterGradient{
            rows, options_.channels, shifts, scales, args.grads[1].data(), args.grads[0].data()});
    if (args.dx != nullptr) {
      float* const means = scales + rows;
      float* const projections = means + rows;
      device_.ForEach(
          rows, group_norm::GroupMeans{GroupsOf(), gamma, shifts, scales, means, projections});
      device_.ForChannels(
          shape, group_norm::InputGradient{normal, args.dy, gamma, means, projections, args.dx});
    }
  }

  OpTraits traits() const override { return {}; }

 private:
  ChannelShape Shape(int64_t n) const {
    return {n, options_.height * options_.width, options_.channels};
  }

  group_norm::Groups GroupsOf() const {
    const int64_t width = options_.channels / options_.groups;
    const auto values = static_cast<float>(width * options_.height * options_.width);
    return {options_.channels, width, 1 / values};
  }

  const GroupNormOptions options_;
  Device device_;
  typename Device::Floats moments_;  // of the last batch: means, then factors
};

}  // namespace ps::kernels
