#include "provisioner/model/queue_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "provisioner/model/queue_parts.h"
#include "provisioner/model/step_time.h"
#include "ps/base/check.h"

namespace ps::provisioner {
namespace {

/// The classes present in a fleet, without allocation. Arrays side by side, so that two classes
/// are worked on at once; an odd number of them is filled up with one of no workers.
struct Fleet {
  static constexpr size_t kMax = QueueSpeedModel::kClassesMax;
  size_t size = 0;
  // A cycle is the longer of two, for a wait w: exposed_s + (1 - overlap) w while computation is
  // long enough to hide behind, hidden_s + w beyond.
  std::array<double, kMax> exposed_s;
  std::array<double, kMax> hidden_s;
  std::array<double, kMax> workers;
  std::array<int, kMax> classes;

  size_t even_size() const { return (size + 1) / 2 * 2; }
};

/// Puts those present into the fleet. Requires: room for them.
FleetRates Gather(
    std::span<const int> counts,
    std::span<const FreeTimes> times,
    const StationPair& stations,
    double overlap,
    Fleet* fleet) {
  FleetRates rates;
  for (size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] <= 0) {
      continue;
    }
    const CycleParts parts = AloneParts(times[k], stations);
    const double sum_s = parts.compute_s + parts.pcie_s + parts.communication_s;
    const size_t i = fleet->size++;
    fleet->exposed_s[i] = sum_s - overlap * parts.communication_s;
    fleet->hidden_s[i] = sum_s - parts.compute_s;
    fleet->workers[i] = counts[k];
    fleet->classes[i] = static_cast<int>(k);
    const double rate = 1 / std::max(fleet->exposed_s[i], fleet->hidden_s[i]);
    rates.rate += counts[k] * rate;
    const double weight = counts[k] * rate * rate;
    rates.rate_square += weight;
    rates.compute_s += weight * parts.compute_s;
    rates.communication_s += weight * parts.communication_s;
  }
  rates.compute_s /= rates.rate_square;
  rates.communication_s /= rates.rate_square;
  if (fleet->size < fleet->even_size()) {
    const size_t i = fleet->size;
    fleet->exposed_s[i] = fleet->hidden_s[i] = 1;
    fleet->workers[i] = 0;
  }
  return rates;
}

/// The wait at which the fleet's rates add up to `rate`.
double WaitAt(const Fleet& fleet, const FleetRates& rates, double rate, double overlap) {
  if (rates.rate <= rate) {
    return 0;
  }
  double workers = 0;
  for (size_t i = 0; i < fleet.size; ++i) {
    workers += fleet.workers[i];
  }
  double low_s = 0;
  double high_s = workers / rate;  // a cycle is at least its wait
  const double growth = 1 - overlap;
  // What the equal workers would wait that these amount to.
  double wait_s = std::clamp(rates.customers() / rate - rates.alone_s(), low_s, high_s);
  constexpr int kSteps = 60;
  // Size of the step at which the iteration ends. If nothing hides, the error left is its square.
  const double accuracy = overlap > 0 ? 1e-12 : 1e-7;
  for (int i = 0; i < kSteps; ++i) {
    double sums[2] = {0, 0};
    double slopes[2] = {0, 0};  // of -sum
    for (size_t k = 0; k < fleet.even_size(); k += 2) {
      for (size_t lane = 0; lane < 2; ++lane) {
        const double exposed_s = fleet.exposed_s[k + lane] + growth * wait_s;
        const double hidden_s = fleet.hidden_s[k + lane] + wait_s;
        const double one = 1 / std::max(exposed_s, hidden_s);
        const double all = fleet.workers[k + lane] * one;
        sums[lane] += all;
        slopes[lane] += all * one * (exposed_s > hidden_s ? growth : 1);
      }
    }
    const double sum = sums[0] + sums[1];
    const double slope = slopes[0] + slopes[1];
    (sum > rate ? low_s : high_s) = wait_s;
    // Newton's step on 1 / sum, which is straight for equal workers.
    const double next_s = wait_s + (sum - rate) * sum / (rate * slope);
    const bool is_inside = slope > 0 && next_s >= low_s && next_s <= high_s;
    wait_s = is_inside ? next_s : (low_s + high_s) / 2;
    if (is_inside && std::abs(sum - rate) <= accuracy * rate) {
      break;
    }
  }
  return wait_s;
}

/// How long exchanges wait, whether that slows workers down or not, at the slower station: there
/// each finds what the others have of its queue, R = d (1 + (n - 1) / n rate R).
double HiddenWait(
    const FleetRates& fleet, double rate, const StationPair& stations, double wait_share) {
  const double slower_s = stations.slower();
  const double others = std::max(1 - 1 / fleet.customers(), 0.0) * rate * slower_s;
  return others < 1 ? wait_share * slower_s * others / (1 - others) : 0;
}

}  // namespace

QueueSpeedModel::QueueSpeedModel(
    std::vector<WorkerClass> classes, const JobTraffic& traffic, const proto::QueueFit& fit)
    : classes_(std::move(classes)), traffic_(traffic), fit_(fit) {
  PS_CHECK(classes_.size() <= kClassesMax) << classes_.size() << " classes of workers";
  PS_CHECK(traffic_.local_steps >= 1);
  for (const WorkerClass& worker : classes_) {
    times_.push_back(
        {.compute_s = worker.compute_s * traffic_.local_steps,
         .pcie_s = PcieSeconds(worker, traffic_),
         .push_s = TransferSeconds(traffic_.push_bytes, worker.link_bytes_per_s),
         .pull_s = TransferSeconds(traffic_.pull_bytes, worker.link_bytes_per_s)});
  }
}

SpeedPrediction QueueSpeedModel::Predict(
    std::span<const int> counts, const ServerSide& servers) const {
  PS_CHECK(counts.size() == classes_.size());
  const QueueServers side = QueueServersOf(traffic_, fit_, servers);
  const double overlap = traffic_.overlap;
  Fleet fleet;
  const FleetRates rates = Gather(counts, times_, side.stations, overlap, &fleet);
  PS_CHECK(fleet.size > 0) << "a fleet without workers";
  const double rate = FleetRate(rates, side.stations, overlap, fit_.wait_share);
  const double wait_s = WaitAt(fleet, rates, rate, overlap);
  const double hidden_wait_s =
      overlap > 0 ? std::max(HiddenWait(rates, rate, side.stations, fit_.wait_share) - wait_s, 0.0)
                  : 0;
  FleetSum sum;
  for (size_t i = 0; i < fleet.size; ++i) {
    const auto k = static_cast<size_t>(fleet.classes[i]);
    const WorkerClass& worker = classes_[k];
    const CycleParts parts = Waiting(AloneParts(times_[k], side.stations), wait_s);
    sum.AddLate(counts[k], LateShare(Waiting(parts, hidden_wait_s), traffic_));
    sum.Add(
        counts[k],
        traffic_.local_steps / CycleSeconds(parts, overlap),
        worker.samples,
        worker.deviation);
    const bool is_link_shorter =
        side.link_bytes_per_s > 0 &&
        (worker.link_bytes_per_s <= 0 || side.link_bytes_per_s <= worker.link_bytes_per_s);
    const double server_s = is_link_shorter ? parts.communication_s : wait_s;
    sum.AddShares(counts[k], parts, server_s * 2 >= parts.communication_s);
  }
  SpeedPrediction prediction = sum.Take();
  prediction.server_busy = std::min(rate * side.stations.slower(), 1.0);
  return prediction;
}

double QueueSpeedModel::WaitSeconds(std::span<const int> counts, const ServerSide& servers) const {
  const QueueServers side = QueueServersOf(traffic_, fit_, servers);
  Fleet fleet;
  const FleetRates rates = Gather(counts, times_, side.stations, traffic_.overlap, &fleet);
  const double rate = FleetRate(rates, side.stations, traffic_.overlap, fit_.wait_share);
  return WaitAt(fleet, rates, rate, traffic_.overlap);
}

std::vector<double> QueueSpeedModel::StepSeconds(
    std::span<const int> counts, const ServerSide& servers) const {
  const double wait_s = WaitSeconds(counts, servers);
  const QueueServers side = QueueServersOf(traffic_, fit_, servers);
  std::vector<double> seconds;
  for (const FreeTimes& times : times_) {
    const CycleParts parts = Waiting(AloneParts(times, side.stations), wait_s);
    seconds.push_back(CycleSeconds(parts, traffic_.overlap) / traffic_.local_steps);
  }
  return seconds;
}

}  // namespace ps::provisioner
