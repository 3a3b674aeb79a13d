#include "provisioner/model/spotdnn_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "provisioner/model/step_time.h"
#include "ps/base/check.h"

namespace ps::provisioner {
namespace {

// Keeps a bandwidth positive where the prototype's P below 0 or above 1 would turn its sign.
constexpr double kBandwidthMin = 1e-9;

constexpr double kMeanRounding = 1 - 1e-9;  // of equal batches

double RoundToTenth(double value) {
  return std::nearbyint(value * 10) / 10;  // to even, as the prototype's library
}

int WorkersOf(std::span<const int> counts) {
  return std::accumulate(counts.begin(), counts.end(), 0);
}

double BytesPerExchange(const JobTraffic& traffic) {
  return traffic.push_bytes + traffic.pull_bytes;
}

/// A mean over workers differs from their common value in its last bits.
void Include(double late, Range* range) {
  constexpr double kSlack = 1e-12;
  range->low = std::min(range->low, late * (1 - kSlack));
  range->high = std::max(range->high, late * (1 + kSlack));
}

double AloneSeconds(const WorkerClass& worker, const JobTraffic& traffic) {
  return worker.link_bytes_per_s > 0 ? BytesPerExchange(traffic) / worker.link_bytes_per_s : 0;
}

}  // namespace

double IterationSeconds(const WorkerClass& worker, const JobTraffic& traffic) {
  return worker.compute_s + AloneSeconds(worker, traffic) + PcieSeconds(worker, traffic);
}

double PaperComputeSeconds(
    double iteration_s, const WorkerClass& worker, const JobTraffic& traffic) {
  return iteration_s - (AloneSeconds(worker, traffic) + PcieSeconds(worker, traffic));
}

double PrototypeComputeSeconds(
    double iteration_s, const WorkerClass& worker, const JobTraffic& traffic) {
  return iteration_s - (AloneSeconds(worker, traffic) - PcieSeconds(worker, traffic));
}

SpotDnnSpeedModel::SpotDnnSpeedModel(
    std::vector<WorkerClass> classes,
    const JobTraffic& traffic,
    const proto::ContentionFit& fit,
    const SpotDnnOptions& options)
    : classes_(std::move(classes)), traffic_(traffic), fit_(fit), options_(options) {}

double SpotDnnSpeedModel::Bandwidth(
    const WorkerClass& worker, int workers, const ServerSide& servers) const {
  const double request = worker.link_bytes_per_s;
  const double share = servers.hosts * servers.link_bytes_per_s / workers;
  if (request <= share) {
    return request;
  }
  double p = std::min(fit_.a1 * std::sqrt(static_cast<double>(workers)) + fit_.b1, 1.0);
  if (options_.variant == SpotDnnVariant::kPaper) {
    p = std::max(p, 0.0);
  }
  return std::max(p * share + (1 - p) * request, kBandwidthMin);
}

double SpotDnnSpeedModel::CommunicationSeconds(
    const WorkerClass& worker, int workers, const ServerSide& servers) const {
  const double bandwidth = Bandwidth(worker, workers, servers);
  const double seconds = BytesPerExchange(traffic_) / bandwidth;
  return bandwidth < worker.link_bytes_per_s ? seconds * (1 + options_.contention_margin) : seconds;
}

namespace {

CycleParts PartsOf(
    const WorkerClass& worker,
    const JobTraffic& traffic,
    SpotDnnVariant variant,
    double communication_s) {
  const bool has_pcie = variant == SpotDnnVariant::kPaper;
  return {
      .compute_s = worker.compute_s * traffic.local_steps,
      .pcie_s = has_pcie ? PcieSeconds(worker, traffic) : 0,
      .communication_s = communication_s};
}

}  // namespace

SpeedPrediction SpotDnnSpeedModel::Predict(
    std::span<const int> counts, const ServerSide& servers) const {
  PS_CHECK(counts.size() == classes_.size());
  const int workers = WorkersOf(counts);
  PS_CHECK(workers > 0);
  FleetSum sum;
  for (size_t k = 0; k < classes_.size(); ++k) {
    if (counts[k] == 0) {
      continue;
    }
    const CycleParts parts = PartsOf(
        classes_[k],
        traffic_,
        options_.variant,
        CommunicationSeconds(classes_[k], workers, servers));
    const double step_s = CycleSeconds(parts, traffic_.overlap) / traffic_.local_steps;
    sum.Add(counts[k], 1 / step_s, classes_[k].samples, classes_[k].deviation);
    sum.AddLate(counts[k], LateShare(parts, traffic_));
    sum.AddShares(
        counts[k], parts, Bandwidth(classes_[k], workers, servers) < classes_[k].link_bytes_per_s);
  }
  SpeedPrediction prediction = sum.Take();
  if (options_.variant == SpotDnnVariant::kPrototype) {
    prediction.batch_mean = RoundToTenth(prediction.batch_mean);
    prediction.steps_per_s = prediction.samples_per_s / prediction.batch_mean;
  }
  const double bytes_per_s =
      prediction.steps_per_s / traffic_.local_steps * BytesPerExchange(traffic_);
  prediction.server_busy = std::min(bytes_per_s / (servers.hosts * servers.link_bytes_per_s), 1.0);
  return prediction;
}

std::vector<double> SpotDnnSpeedModel::StepSeconds(
    std::span<const int> counts, const ServerSide& servers) const {
  const int workers = WorkersOf(counts);
  std::vector<double> seconds;
  for (const WorkerClass& worker : classes_) {
    const double communication_s = CommunicationSeconds(worker, workers, servers);
    const CycleParts parts = PartsOf(worker, traffic_, options_.variant, communication_s);
    seconds.push_back(CycleSeconds(parts, traffic_.overlap) / traffic_.local_steps);
  }
  return seconds;
}

SpeedBounds SpotDnnSpeedModel::Bound(int workers, const ServerSide& servers) const {
  SpeedBounds bounds;
  bounds.fleet_steps_per_s = std::numeric_limits<double>::infinity();
  bounds.is_exact = options_.variant == SpotDnnVariant::kPaper;
  double widening = 1;
  if (!bounds.is_exact) {
    // Rounding the batch down by 0.05 makes the fleet seem faster by that share of the batch.
    double batch_min = std::numeric_limits<double>::infinity();
    for (const WorkerClass& worker : classes_) {
      batch_min = std::min(batch_min, worker.samples);
    }
    widening = batch_min / std::max(batch_min - 0.05, batch_min * 1e-3);
  }
  bounds.late = {1, 0};
  for (const WorkerClass& worker : classes_) {
    const double communication_s = CommunicationSeconds(worker, workers, servers);
    const CycleParts parts = PartsOf(worker, traffic_, options_.variant, communication_s);
    const double step_s = CycleSeconds(parts, traffic_.overlap) / traffic_.local_steps;
    Include(LateShare(parts, traffic_), &bounds.late);
    bounds.steps_per_s.push_back(widening / step_s);
    bounds.steps_per_s_min.push_back(1 / (widening * step_s));
  }
  return bounds;
}

IdealSpeedModel::IdealSpeedModel(
    std::vector<WorkerClass> classes, const JobTraffic& traffic, double residual)
    : classes_(std::move(classes)), traffic_(traffic), residual_(residual) {}

namespace {

CycleParts AloneParts(const WorkerClass& worker, const JobTraffic& traffic) {
  return PartsOf(worker, traffic, SpotDnnVariant::kPaper, AloneSeconds(worker, traffic));
}

}  // namespace

SpeedPrediction IdealSpeedModel::Predict(
    std::span<const int> counts, const ServerSide& servers) const {
  PS_CHECK(counts.size() == classes_.size());
  FleetSum sum;
  for (size_t k = 0; k < classes_.size(); ++k) {
    const CycleParts parts = AloneParts(classes_[k], traffic_);
    const double step_s = CycleSeconds(parts, traffic_.overlap) / traffic_.local_steps;
    sum.Add(counts[k], 1 / step_s, classes_[k].samples, classes_[k].deviation);
    sum.AddLate(counts[k], LateShare(parts, traffic_));
    sum.AddShares(counts[k], parts, /*is_server_bound=*/false);
  }
  SpeedPrediction prediction = sum.Take();
  const double bytes_per_s = prediction.steps_per_s / traffic_.local_steps *
                             std::max(traffic_.push_bytes, traffic_.pull_bytes);
  prediction.server_busy = std::min(bytes_per_s / (servers.hosts * servers.link_bytes_per_s), 1.0);
  return prediction;
}

std::vector<double> IdealSpeedModel::StepSeconds(
    std::span<const int> /*counts*/, const ServerSide& /*servers*/) const {
  std::vector<double> seconds;
  for (const WorkerClass& worker : classes_) {
    const CycleParts parts = AloneParts(worker, traffic_);
    seconds.push_back(CycleSeconds(parts, traffic_.overlap) / traffic_.local_steps);
  }
  return seconds;
}

SpeedBounds IdealSpeedModel::Bound(int /*workers*/, const ServerSide& servers) const {
  SpeedBounds bounds;
  bounds.fleet_steps_per_s = std::numeric_limits<double>::infinity();
  bounds.is_exact = true;
  for (const double step_s : StepSeconds({}, servers)) {
    bounds.steps_per_s.push_back(1 / step_s);
  }
  bounds.late = {1, 0};
  for (const WorkerClass& worker : classes_) {
    Include(LateShare(AloneParts(worker, traffic_), traffic_), &bounds.late);
  }
  return bounds;
}

double SpotDnnLossModel::Scale(double batch_mean, double heterogeneity, int workers) const {
  const double spread = fit_.has_heterogeneity ? heterogeneity + fit_.c4 : 1.0;
  return (fit_.c2 * batch_mean + fit_.c3) * std::sqrt(std::max(spread, 0.0) * workers);
}

SpotDnnLossModel::SpotDnnLossModel(
    const proto::LossFit& fit,
    SpotDnnVariant variant,
    double batch_least,
    const RunProgress& progress)
    : fit_(fit), variant_(variant), batch_least_(batch_least), progress_(progress) {}

double SpotDnnLossModel::SmallBatchFactor(double batch_mean) const {
  const bool is_small = batch_mean > 0 && batch_mean < batch_least_ * kMeanRounding;
  return is_small ? batch_least_ / batch_mean : 1;
}

double SpotDnnLossModel::StepsOfScale(double loss, double scale) const {
  double steps = scale / (loss - fit_.c5) - fit_.c1;
  if (progress_.loss > fit_.c5) {
    steps -= std::max(scale / (progress_.loss - fit_.c5) - fit_.c1, 0.0);
  }
  steps *= progress_.pace;
  if (variant_ == SpotDnnVariant::kPrototype) {
    steps = std::nearbyint(steps);
  }
  return std::max(steps, 0.0);
}

double SpotDnnLossModel::StepsTo(double loss, const FleetTraits& fleet) const {
  const double factor = SmallBatchFactor(fleet.batch_mean);
  const double scale = Scale(fleet.batch_mean * factor, fleet.heterogeneity, fleet.workers);
  // A batch so large that c2 b_w + c3 <= 0 is outside the range of the fit: no number of steps is
  // given.
  if (loss <= fit_.c5 || scale <= 0) {
    return std::numeric_limits<double>::infinity();
  }
  return StepsOfScale(loss, scale) * factor;
}

double SpotDnnLossModel::StepsAtLeast(double loss, const FleetFamily& fleets) const {
  const double factor = SmallBatchFactor(fleets.batch_mean.high);
  const Range batch = {
      fleets.batch_mean.low * SmallBatchFactor(fleets.batch_mean.low),
      fleets.batch_mean.high * factor};
  const Range& spread = fleets.heterogeneity;
  // The scale is monotone in each of the two while the other stays, so that its extremes lie in
  // the corners. Where it is negative in one and positive in another, it comes close to 0 between.
  const double corners[] = {
      Scale(batch.low, spread.low, fleets.workers),
      Scale(batch.low, spread.high, fleets.workers),
      Scale(batch.high, spread.low, fleets.workers),
      Scale(batch.high, spread.high, fleets.workers)};
  const auto [least, most] = std::minmax_element(std::begin(corners), std::end(corners));
  if (loss <= fit_.c5 || *most <= 0) {
    return std::numeric_limits<double>::infinity();
  }
  return StepsOfScale(loss, std::max(*least, 0.0)) * factor;
}

BatchLine SpotDnnLossModel::BatchLineOf(const Range& batch_mean) const {
  if (batch_mean.high <= batch_least_) {
    return {0, 1 / (batch_mean.high * kMeanRounding)};
  }
  return {.kink = batch_mean.low < batch_least_ * kMeanRounding ? batch_least_ : 0};
}

double SpotDnnLossModel::LossAt(
    double steps, double batch_mean, double heterogeneity, int workers) const {
  return Scale(batch_mean, heterogeneity, workers) / (steps + fit_.c1) + fit_.c5;
}

}  // namespace ps::provisioner
