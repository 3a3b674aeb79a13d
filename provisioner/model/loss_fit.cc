#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "provisioner/model/least_squares.h"
#include "provisioner/model/profile_fit.h"
#include "provisioner/model/spotdnn_model.h"
#include "provisioner/profile/statistics.h"

namespace ps::provisioner {
namespace {

constexpr size_t kPointsNeeded = 20;
constexpr size_t kPointsUsed = 2000;  // more cost time and tell nothing new
constexpr int kIterationsMax = 200;

/// What the samples span, for coefficients near 1.
struct Scales {
  double steps_max = 0;
  double loss_min = 0;
  double loss_range = 0;
  double batch = 1;          // median
  bool has_batches = false;  // different enough to tell c2
  bool has_heterogeneity = false;
};

/// By steps, evenly thinned out.
std::vector<proto::LossSample> Sorted(std::span<const proto::LossSample> samples) {
  std::vector<proto::LossSample> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted, [](const proto::LossSample& a, const proto::LossSample& b) {
    return std::tie(a.steps, a.workers, a.loss) < std::tie(b.steps, b.workers, b.loss);
  });
  const size_t count = std::min(sorted.size(), kPointsUsed);
  for (size_t i = 0; i < count; ++i) {
    sorted[i] = sorted[i * sorted.size() / count];
  }
  sorted.resize(count);
  return sorted;
}

double QuarterMedian(const std::vector<proto::LossSample>& sorted, bool is_last) {
  const size_t quarter = sorted.size() / 4;
  std::vector<double> losses;
  for (size_t i = 0; i < quarter; ++i) {
    losses.push_back(sorted[is_last ? sorted.size() - 1 - i : i].loss);
  }
  return Median(losses);
}

/// Coefficients from the minimiser's parameters: ln of c1 over the last step, ln of the height,
/// how much of the height the batch takes away, ln c4, c5.
proto::LossFit FitOf(std::span<const double> p, const Scales& scales) {
  const double height = scales.loss_range * scales.steps_max * std::exp(p[1]);
  const double batch_part = scales.has_batches ? p[2] : 0;
  return {
      .c1 = scales.steps_max * std::exp(p[0]),
      .c2 = -height * batch_part / scales.batch,
      .c3 = height * (1 + batch_part),
      .c4 = scales.has_heterogeneity ? std::exp(p[3]) : 0,
      .c5 = scales.loss_min + scales.loss_range * p[4],
      .has_heterogeneity = scales.has_heterogeneity};
}

double PredictedLoss(const proto::LossFit& fit, const proto::LossSample& sample) {
  const SpotDnnLossModel model(fit, SpotDnnVariant::kPaper);
  return model.LossAt(sample.steps, sample.batch_mean, sample.heterogeneity, sample.workers);
}

LeastSquares Minimise(
    std::span<const proto::LossSample> samples,
    const Scales& scales,
    std::vector<double> start,
    double limit) {
  const auto residuals = [&](std::span<const double> p, std::span<double> out) {
    const proto::LossFit fit = FitOf(p, scales);
    for (size_t i = 0; i < samples.size(); ++i) {
      const double error = (PredictedLoss(fit, samples[i]) - samples[i].loss) / scales.loss_range;
      out[i] = SoftResidual(error, limit);
    }
    // Weak pulls to the values that coefficients keep when the samples do not determine them.
    const double pull = 1e-3 * limit * std::sqrt(static_cast<double>(samples.size()));
    out[samples.size()] = pull * p[2];
    out[samples.size() + 1] = pull * p[3];
    out[samples.size() + 2] = pull * p[4];
  };
  return MinimiseSquares(residuals, samples.size() + 3, std::move(start), kIterationsMax);
}

LeastSquares MinimiseFromSeveral(
    std::span<const proto::LossSample> samples, const Scales& scales, double limit) {
  LeastSquares best;
  best.cost = std::numeric_limits<double>::infinity();
  for (const double shift : {0.01, 0.1, 1.0}) {
    for (const double floor : {-0.02, -0.3}) {
      // The height that makes the curve start at the top.
      const std::vector<double> start = {std::log(shift), std::log(shift), 0, 0, floor};
      LeastSquares found = Minimise(samples, scales, start, limit);
      if (found.cost < best.cost) {
        best = std::move(found);
      }
    }
  }
  return best;
}

/// Root mean square, over stretches of each fleet's curve, of how far off the steps are: the median
/// error of the loss there over the curve's slope. Single points scatter far more than a curve's
/// steps to a loss do.
double StepsResidual(std::span<const proto::LossSample> samples, const proto::LossFit& fit) {
  std::map<std::tuple<int, double, double>, std::vector<proto::LossSample>> curves;
  for (const proto::LossSample& sample : samples) {
    curves[{sample.workers, sample.batch_mean, sample.heterogeneity}].push_back(sample);
  }
  double squares = 0;
  int stretches = 0;
  for (const auto& [fleet, curve] : curves) {
    const size_t count = std::clamp<size_t>(curve.size() / 5, 1, 10);
    for (size_t s = count / 10 + 1; s <= count; ++s) {
      const size_t begin = (s - 1) * curve.size() / count;
      const size_t end = s * curve.size() / count;
      std::vector<double> errors;
      for (size_t i = begin; i < end; ++i) {
        errors.push_back(PredictedLoss(fit, curve[i]) - curve[i].loss);
      }
      const proto::LossSample& middle = curve[(begin + end) / 2];
      // -d loss / d ln j of the curve, of which (loss - c5) j / (j + c1) is left.
      const double slope =
          (PredictedLoss(fit, middle) - fit.c5) * middle.steps / (middle.steps + fit.c1);
      if (slope > 0) {
        const double error = Median(errors) / slope;
        squares += error * error;
        ++stretches;
      }
    }
  }
  // Five stretches with the expected error count in addition, in place of those that the
  // coefficients fit, so that a short curve gives a large residual.
  constexpr double kExpected = 0.05;
  return stretches > 0 ? std::sqrt((squares + 5 * kExpected * kExpected) / stretches) : 1;
}

Status CheckMixes(std::span<const proto::LossSample> samples) {
  std::set<double> mixes;
  std::set<int> sizes;
  for (const proto::LossSample& sample : samples) {
    mixes.insert(std::round(sample.heterogeneity * 100));
    sizes.insert(sample.workers);
  }
  if (mixes.size() < 3 || sizes.size() < 2) {
    return Status::InvalidArgument(fmt::format(
        "the loss with heterogeneity needs curves of 3 fleets that differ in it and of "
        "2 sizes; there are {} and {}",
        mixes.size(),
        sizes.size()));
  }
  return Status::Ok();
}

}  // namespace

Result<proto::LossFit> FitLoss(
    std::span<const proto::LossSample> samples, const LossFitOptions& options) {
  if (samples.size() < kPointsNeeded) {
    return Status::InvalidArgument(fmt::format(
        "the loss needs {} points of a curve; there are {}", kPointsNeeded, samples.size()));
  }
  if (options.has_heterogeneity) {
    PS_TRY(CheckMixes(samples));
  }
  const std::vector<proto::LossSample> sorted = Sorted(samples);
  const double top = QuarterMedian(sorted, /*is_last=*/false);
  const double bottom = QuarterMedian(sorted, /*is_last=*/true);
  if (!(bottom < top)) {
    return Status::InvalidArgument(fmt::format(
        "the measured loss does not fall: its last quarter has a median of {:.6f}, "
        "its first of {:.6f}; train for longer",
        bottom,
        top));
  }
  Scales scales;
  scales.steps_max = sorted.back().steps;
  scales.loss_min = bottom;
  scales.loss_range = top - bottom;
  scales.has_heterogeneity = options.has_heterogeneity;
  std::vector<double> batches;
  for (const proto::LossSample& sample : sorted) {
    batches.push_back(sample.batch_mean);
  }
  const auto [batch_min, batch_max] = std::ranges::minmax(batches);
  scales.has_batches = batch_min > 0 && batch_max > 1.1 * batch_min;
  scales.batch = std::max(Median(batches), 1e-9);

  constexpr double kFirstLimit = 0.1;
  LeastSquares found = MinimiseFromSeveral(sorted, scales, kFirstLimit);
  // Once more, with outliers judged by the scatter of the points.
  std::vector<double> errors;
  const proto::LossFit first = FitOf(found.parameters, scales);
  for (const proto::LossSample& sample : sorted) {
    errors.push_back((PredictedLoss(first, sample) - sample.loss) / scales.loss_range);
  }
  const double limit = std::clamp(1.5 * RobustDeviation(errors, 0), 1e-4, kFirstLimit);
  found = Minimise(sorted, scales, found.parameters, limit);

  proto::LossFit fit = FitOf(found.parameters, scales);
  fit.samples = static_cast<int>(samples.size());
  fit.residual = StepsResidual(sorted, fit);
  return fit;
}

}  // namespace ps::provisioner
