#include "provisioner/model/curve_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "provisioner/model/prediction_interval.h"

namespace ps::provisioner {
namespace {

// Exponent with which f grows where only one size was measured: between those of few and of many
// workers (docs/measurements/provisioner.md).
constexpr double kSlopeGuess = 0.5;
constexpr double kSlopeMax = 1.5;
constexpr double kBatchAlike = 0.9;  // of the curves' batch: as good as the same
constexpr double kDoubled = std::numbers::ln2 * (1 - 1e-9);
// Standard deviation of that slope, and of the curve's below the losses that were seen.
constexpr double kSlopeDeviation = 0.3;
constexpr double kDepthDeviation = 0.2;
// For a run that is under way: the ratio of steps to a loss and steps made, from which on their
// difference tells something; and how far what is left may differ from the whole.
constexpr double kFarEnough = 1.1;
constexpr double kLeftMax = 2;

}  // namespace

double Staleness(int workers, double late) {
  return (2 + late) * workers - 1;
}

CurveLossModel::CurveLossModel(const proto::CurveFit& fit, const RunProgress& progress)
    : fit_(fit), progress_(progress) {
  if (fit_.fleets.empty()) {
    fit_.fleets.emplace_back();
  }
  const auto staleness = [](const proto::FleetFactor& fleet) {
    return std::log(Staleness(fleet.workers, fleet.late));
  };
  std::ranges::sort(fit_.fleets, {}, staleness);
  const auto same = std::ranges::unique(fit_.fleets, {}, staleness);
  fit_.fleets.erase(same.begin(), same.end());
  for (const proto::FleetFactor& fleet : fit_.fleets) {
    log_staleness_.push_back(staleness(fleet));
  }
  for (size_t k = 0; k < std::max<size_t>(fit_.losses.size(), 1); ++k) {
    std::vector<double> log_factors;
    for (const proto::FleetFactor& fleet : fit_.fleets) {
      const double by_loss = k < fleet.by_loss.size() ? fleet.by_loss[k] : 1;
      log_factors.push_back(std::log(fleet.factor * by_loss));
    }
    rows_.push_back(MakeRow(std::move(log_factors)));
  }
  if (is_under_way() && progress_.loss > fit_.floor && !fit_.losses.empty()) {
    BeginAtProgress();
  }
}

void CurveLossModel::BeginAtProgress() {
  const double done = AllStepsOfOne(progress_.loss);
  std::vector<double> done_factors;
  for (const double staleness : log_staleness_) {
    done_factors.push_back(std::exp(LogFactorAt(progress_.loss, staleness)));
  }
  std::vector<double> losses;
  std::vector<Row> rows;
  for (size_t k = 0; k < fit_.losses.size(); ++k) {
    const double all = AllStepsOfOne(fit_.losses[k]);
    if (fit_.losses[k] <= fit_.floor || all < done * kFarEnough) {
      continue;
    }
    std::vector<double> log_factors;
    for (size_t i = 0; i < log_staleness_.size(); ++i) {
      const double whole = std::exp(rows_[k].log_factors[i]);
      const double left = (whole * all - done_factors[i] * done) / (all - done);
      log_factors.push_back(std::log(std::clamp(left, whole / kLeftMax, whole * kLeftMax)));
    }
    losses.push_back(fit_.losses[k]);
    rows.push_back(MakeRow(std::move(log_factors)));
  }
  if (rows.empty()) {
    rows.push_back(rows_.back());  // beyond what was measured: as at its end
  }
  fit_.losses = std::move(losses);
  rows_ = std::move(rows);
}

CurveLossModel::Row CurveLossModel::MakeRow(std::vector<double> log_factors) const {
  Row row{.log_factors = std::move(log_factors)};
  const std::vector<double>& f = row.log_factors;
  for (size_t i = 1; i < f.size(); ++i) {
    row.log_factors[i] = std::max(f[i], f[i - 1]);
  }
  row.slope_before = row.slope_after = kSlopeGuess;
  if (f.size() == 1) {
    return row;
  }
  // Over the first and the last doubling, or over all that there is.
  const auto slope = [&](size_t low, size_t high) {
    const double rise = f[high] - f[low];
    return std::min(rise / (log_staleness_[high] - log_staleness_[low]), kSlopeMax);
  };
  const size_t last = f.size() - 1;
  size_t doubled = 0;
  while (doubled < last && log_staleness_[doubled] < log_staleness_.front() + kDoubled) {
    ++doubled;
  }
  size_t halved = last;
  while (halved > 0 && log_staleness_[halved] > log_staleness_.back() - kDoubled) {
    --halved;
  }
  row.slope_before = slope(0, doubled);
  row.slope_after = slope(halved, last);
  return row;
}

double CurveLossModel::LogFactor(const Row& row, double log_staleness) const {
  const auto next = std::ranges::upper_bound(log_staleness_, log_staleness);
  const auto i = static_cast<size_t>(next - log_staleness_.begin());
  if (i == 0) {
    return row.log_factors[0] + row.slope_before * (log_staleness - log_staleness_[0]);
  }
  const double beyond = log_staleness - log_staleness_[i - 1];
  if (i == log_staleness_.size()) {
    return row.log_factors[i - 1] + row.slope_after * beyond;
  }
  const double share = beyond / (log_staleness_[i] - log_staleness_[i - 1]);
  return row.log_factors[i - 1] + share * (row.log_factors[i] - row.log_factors[i - 1]);
}

double CurveLossModel::Factor(double loss, int workers, double late) const {
  return std::exp(LogFactorAt(loss, std::log(Staleness(workers, late))));
}

double CurveLossModel::LogFactorAt(double loss, double at) const {
  const std::vector<double>& losses = fit_.losses;
  const auto next = std::ranges::lower_bound(losses, loss, std::ranges::greater());
  const auto k = static_cast<size_t>(next - losses.begin());  // the first that is not above
  if (k == 0 || k == losses.size()) {
    return LogFactor(rows_[std::min(k, rows_.size() - 1)], at);
  }
  const double share = (losses[k - 1] - loss) / (losses[k - 1] - losses[k]);
  return (1 - share) * LogFactor(rows_[k - 1], at) + share * LogFactor(rows_[k], at);
}

double CurveLossModel::StepsOfOne(double loss) const {
  const double done = progress_.loss > fit_.floor ? AllStepsOfOne(progress_.loss) : 0;
  return progress_.pace * std::max(AllStepsOfOne(loss) - done, 0.0);
}

double CurveLossModel::AllStepsOfOne(double loss) const {
  return fit_.steps * std::pow(loss - fit_.floor, -fit_.power);
}

double CurveLossModel::BatchFactor(double batch_mean) const {
  if (!(fit_.minibatch > 0 && batch_mean > 0)) {
    return 1;  // not known
  }
  // Where the curves do not tell, a larger batch saves no steps and a smaller one no samples.
  const double more = fit_.minibatch / batch_mean;
  return fit_.batch_power > 0 ? std::pow(more, fit_.batch_power)
                              : std::max(more * kBatchAlike, 1.0);
}

double CurveLossModel::StepsTo(double loss, const FleetTraits& fleet) const {
  if (loss <= fit_.floor) {
    return std::numeric_limits<double>::infinity();
  }
  return Factor(loss, fleet.workers, fleet.late) * StepsOfOne(loss) * BatchFactor(fleet.batch_mean);
}

double CurveLossModel::StepsAtLeast(double loss, const FleetFamily& fleets) const {
  // Never more steps with a larger batch, never fewer with later parameters.
  return StepsTo(
      loss,
      {.workers = fleets.workers, .batch_mean = fleets.batch_mean.high, .late = fleets.late.low});
}

BatchLine CurveLossModel::BatchLineOf(const Range& batch_mean) const {
  if (!(fit_.minibatch > 0)) {
    return {};
  }
  if (fit_.batch_power > 0) {
    // A tangent to b^power, which is concave, where the range's ends are equally far.
    const double middle = std::sqrt(batch_mean.low * batch_mean.high);
    const double at_middle = std::pow(middle / batch_mean.high, fit_.batch_power);
    return {at_middle * (1 - fit_.batch_power), at_middle * fit_.batch_power / middle};
  }
  const double least = fit_.minibatch * kBatchAlike;
  if (batch_mean.high <= least) {
    return {0, 1 / batch_mean.high};
  }
  return {.kink = batch_mean.low < least ? least : 0};
}

double CurveLossModel::ResidualAt(double loss, const FleetTraits& fleet) const {
  const double at = std::log(Staleness(fleet.workers, fleet.late));
  const double beyond = std::max({at - log_staleness_.back(), log_staleness_.front() - at, 0.0});
  double deviation = CombinedResidual(fit_.residual, kSlopeDeviation * beyond);
  if (loss > fit_.floor && loss < fit_.loss_min && loss < progress_.loss) {
    const double all = AllStepsOfOne(loss);
    const double done = AllStepsOfOne(progress_.loss);
    const double deeper = std::log(all / std::max(AllStepsOfOne(fit_.loss_min), done));
    // The doubt is of all steps, of which only some are left.
    deviation = CombinedResidual(deviation, kDepthDeviation * deeper * all / (all - done));
  }
  return deviation;
}

}  // namespace ps::provisioner
