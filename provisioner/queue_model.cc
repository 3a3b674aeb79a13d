#include "provisioner/queue_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "provisioner/closed_queue.h"
#include "provisioner/step_time.h"
#include "ps/base/check.h"

namespace ps::provisioner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double TransferSeconds(double bytes, double bytes_per_s) {
  return bytes_per_s > 0 ? bytes / bytes_per_s : 0;
}

/// What the servers' side of a prediction is made of.
struct Servers {
  double link_bytes_per_s = 0;  // of all hosts; 0: no limit
  StationPair stations;
};

Servers ServersOf(
    const JobTraffic& traffic, const proto::QueueFit& fit, const ServerSide& servers) {
  Servers result;
  result.link_bytes_per_s = servers.hosts * servers.link_bytes_per_s;
  const double overhead_s = fit.overhead_s / servers.hosts / 2;
  result.stations.push_s =
      TransferSeconds(traffic.push_bytes, result.link_bytes_per_s) + overhead_s;
  result.stations.pull_s =
      TransferSeconds(traffic.pull_bytes, result.link_bytes_per_s) + overhead_s;
  return result;
}

/// One class present in a fleet: its parts alone, and its rate.
struct Member {
  const WorkerClass* worker = nullptr;
  int count = 0;
  CycleParts parts;
  double rate = 0;  // exchanges per second, alone
};

/// The members of a fleet, without allocation.
struct Fleet {
  std::array<Member, QueueSpeedModel::kClassesMax> members;
  size_t size = 0;
  double rate = 0;         // sum of the workers' rates alone
  double rate_square = 0;  // sum of their squares

  std::span<const Member> all() const { return {members.data(), size}; }
};

CycleParts AloneParts(
    const WorkerClass& worker, const JobTraffic& traffic, const StationPair& stations) {
  const double push_s = TransferSeconds(traffic.push_bytes, worker.link_bytes_per_s);
  const double pull_s = TransferSeconds(traffic.pull_bytes, worker.link_bytes_per_s);
  return {
      .compute_s = worker.compute_s * traffic.local_steps,
      .pcie_s = PcieSeconds(worker, traffic),
      .communication_s = std::max(push_s, stations.push_s) + std::max(pull_s, stations.pull_s)};
}

void AddMember(
    const WorkerClass& worker,
    int count,
    const JobTraffic& traffic,
    const StationPair& stations,
    Fleet* fleet) {
  if (count <= 0) {
    return;
  }
  Member& member = fleet->members[fleet->size++];
  member.worker = &worker;
  member.count = count;
  member.parts = AloneParts(worker, traffic, stations);
  member.rate = 1 / CycleSeconds(member.parts, traffic.overlap);
  fleet->rate += count * member.rate;
  fleet->rate_square += count * member.rate * member.rate;
}

CycleParts Waiting(CycleParts parts, double wait_s) {
  parts.communication_s += wait_s;
  return parts;
}

/// The rate of servers that share, for as many equal workers as the members amount to.
double SharingRate(const Fleet& fleet, const StationPair& stations, double overlap) {
  const double customers = fleet.rate * fleet.rate / fleet.rate_square;
  const double alone_s = fleet.rate / fleet.rate_square;
  const double think_s = std::max(alone_s - stations.sum(), 0.0);
  double rate = SharedRate(customers, think_s, stations);
  if (overlap <= 0) {
    return rate;
  }
  CycleParts mean;
  for (const Member& member : fleet.all()) {
    const double weight = member.count * member.rate * member.rate / fleet.rate_square;
    mean.compute_s += weight * member.parts.compute_s;
    mean.communication_s += weight * member.parts.communication_s;
  }
  // Waiting that hides behind computation brings the next exchange on sooner, which lengthens the
  // wait: the least fixed point, from below.
  constexpr int kRounds = 8;
  const double hidden_alone_s = std::min(overlap * mean.communication_s, mean.compute_s);
  double shorter_s = 0;
  for (int i = 0; i < kRounds; ++i) {
    const double wait_s = std::max(customers / rate - (alone_s - shorter_s), 0.0);
    const double hidden_s =
        std::min(overlap * (mean.communication_s + wait_s), mean.compute_s) - hidden_alone_s;
    if (hidden_s <= shorter_s * (1 + 1e-12)) {
      break;
    }
    shorter_s = hidden_s;
    rate = SharedRate(customers, std::max(think_s - shorter_s, 0.0), stations);
  }
  return rate;
}

/// Exchanges per second of the fleet.
double FleetRate(
    const Fleet& fleet, const StationPair& stations, double overlap, double wait_share) {
  const double slower_s = stations.slower();
  const double turns = slower_s > 0 ? std::min(fleet.rate, 1 / slower_s) : fleet.rate;
  if (wait_share <= 0 || slower_s <= 0) {
    return turns;
  }
  const double shared = std::min(SharingRate(fleet, stations, overlap), turns);
  if (wait_share >= 1) {
    return shared;
  }
  return turns * (1 - std::pow(1 - shared / turns, 1 / wait_share));
}

/// The wait at which the members' rates add up to `rate`.
double WaitAt(const Fleet& fleet, double rate, double overlap) {
  if (fleet.rate <= rate) {
    return 0;
  }
  double workers = 0;
  for (const Member& member : fleet.all()) {
    workers += member.count;
  }
  double low_s = 0;
  double high_s = workers / rate;  // a cycle is at least its wait
  // What the equal workers would wait that these amount to.
  const double equal_s =
      fleet.rate * fleet.rate / fleet.rate_square / rate - fleet.rate / fleet.rate_square;
  double wait_s = std::clamp(equal_s, low_s, high_s);
  constexpr int kSteps = 60;
  for (int i = 0; i < kSteps; ++i) {
    double sum = 0;
    double slope = 0;  // of -sum
    for (const Member& member : fleet.all()) {
      const CycleParts parts = Waiting(member.parts, wait_s);
      const double one = 1 / CycleSeconds(parts, overlap);
      const bool is_hiding = overlap * parts.communication_s < parts.compute_s;
      sum += member.count * one;
      slope += member.count * one * one * (is_hiding ? 1 - overlap : 1);
    }
    if (std::abs(sum - rate) <= 1e-13 * rate) {
      break;
    }
    (sum > rate ? low_s : high_s) = wait_s;
    // Newton's step on 1 / sum, which is straight for equal workers.
    const double next_s = wait_s + (sum - rate) * sum / (rate * slope);
    wait_s = slope > 0 && next_s > low_s && next_s < high_s ? next_s : (low_s + high_s) / 2;
  }
  return wait_s;
}

}  // namespace

QueueSpeedModel::QueueSpeedModel(
    std::vector<WorkerClass> classes, const JobTraffic& traffic, const proto::QueueFit& fit)
    : classes_(std::move(classes)), traffic_(traffic), fit_(fit) {
  PS_CHECK(classes_.size() <= kClassesMax) << classes_.size() << " classes of workers";
  PS_CHECK(traffic_.local_steps >= 1);
}

SpeedPrediction QueueSpeedModel::Predict(
    std::span<const int> counts, const ServerSide& servers) const {
  PS_CHECK(counts.size() == classes_.size());
  const Servers side = ServersOf(traffic_, fit_, servers);
  Fleet fleet;
  for (size_t k = 0; k < classes_.size(); ++k) {
    AddMember(classes_[k], counts[k], traffic_, side.stations, &fleet);
  }
  PS_CHECK(fleet.size > 0) << "a fleet without workers";
  const double rate = FleetRate(fleet, side.stations, traffic_.overlap, fit_.wait_share);
  const double wait_s = WaitAt(fleet, rate, traffic_.overlap);
  FleetSum sum;
  for (const Member& member : fleet.all()) {
    const CycleParts parts = Waiting(member.parts, wait_s);
    sum.Add(
        member.count, CycleSeconds(parts, traffic_.overlap) / traffic_.local_steps, *member.worker);
    const bool is_link_shorter =
        side.link_bytes_per_s > 0 && (member.worker->link_bytes_per_s <= 0 ||
                                      side.link_bytes_per_s <= member.worker->link_bytes_per_s);
    const double server_s = is_link_shorter ? parts.communication_s : wait_s;
    sum.AddShares(member.count, parts, server_s * 2 >= parts.communication_s);
  }
  SpeedPrediction prediction = sum.Take();
  prediction.server_busy = std::min(rate * side.stations.slower(), 1.0);
  return prediction;
}

double QueueSpeedModel::WaitSeconds(std::span<const int> counts, const ServerSide& servers) const {
  const Servers side = ServersOf(traffic_, fit_, servers);
  Fleet fleet;
  for (size_t k = 0; k < classes_.size(); ++k) {
    AddMember(classes_[k], counts[k], traffic_, side.stations, &fleet);
  }
  const double rate = FleetRate(fleet, side.stations, traffic_.overlap, fit_.wait_share);
  return WaitAt(fleet, rate, traffic_.overlap);
}

std::vector<double> QueueSpeedModel::StepSeconds(
    std::span<const int> counts, const ServerSide& servers) const {
  const double wait_s = WaitSeconds(counts, servers);
  const Servers side = ServersOf(traffic_, fit_, servers);
  std::vector<double> seconds;
  for (const WorkerClass& worker : classes_) {
    const CycleParts parts = Waiting(AloneParts(worker, traffic_, side.stations), wait_s);
    seconds.push_back(CycleSeconds(parts, traffic_.overlap) / traffic_.local_steps);
  }
  return seconds;
}

namespace {

// What rounding may add to another fleet's rate or wait.
constexpr double kRounding = 1 + 1e-9;

// Waits below this share of a cycle are lost in rounding.
constexpr double kWaitSlack = 1e-4;

// Between the fewest and the most workers, a fleet in step was seen 0.9 % busier than both.
constexpr double kInStepSlack = 1.02;

// Where the search for a cycle begins at which workers wait little, in time at the servers.
constexpr double kSlowestFactor = 1e3;

}  // namespace

const WorkerClass& QueueSpeedModel::FastestAlone(const ServerSide& servers) const {
  const Servers side = ServersOf(traffic_, fit_, servers);
  const WorkerClass* fastest = nullptr;
  double cycle_min_s = kInfinity;
  for (const WorkerClass& worker : classes_) {
    const double cycle_s =
        CycleSeconds(AloneParts(worker, traffic_, side.stations), traffic_.overlap);
    if (cycle_s < cycle_min_s) {
      cycle_min_s = cycle_s;
      fastest = &worker;
    }
  }
  PS_CHECK(fastest != nullptr);
  return *fastest;
}

Range QueueSpeedModel::Loads(int workers, const ServerSide& servers) const {
  PS_CHECK(workers > 0);
  const Servers side = ServersOf(traffic_, fit_, servers);
  // At worst all others are ahead, at both stations.
  const double behind_all_s = (workers - 1) * side.stations.sum();
  if (traffic_.overlap > 0) {
    return {0, 2 * behind_all_s};  // waiting that hides counts for more than it takes
  }
  // The fleet that is fastest of all waits longest.
  Fleet fleet;
  AddMember(FastestAlone(servers), workers, traffic_, side.stations, &fleet);
  const double rate = FleetRate(fleet, side.stations, traffic_.overlap, fit_.wait_share);
  return {0, std::min(WaitAt(fleet, rate, traffic_.overlap) * kRounding, behind_all_s)};
}

double QueueSpeedModel::RateMost(int workers, const ServerSide& servers, double wait_most_s) const {
  const Servers side = ServersOf(traffic_, fit_, servers);
  Fleet all;
  AddMember(FastestAlone(servers), workers, traffic_, side.stations, &all);
  const double rate_all = FleetRate(all, side.stations, traffic_.overlap, fit_.wait_share);
  const double alone_s = workers / all.rate;
  if (traffic_.overlap > 0) {
    // A mixed fleet can be faster than one of the fastest: what hides depends on who waits.
    const double slower_s = side.stations.slower();
    return slower_s > 0 ? 1 / slower_s : kInfinity;
  }
  wait_most_s += kWaitSlack * std::min(alone_s, side.stations.sum());
  if (workers / rate_all - alone_s <= wait_most_s) {
    return rate_all;
  }
  // Of all fleets that wait as long, the busiest is one of as few and fast workers as possible, or
  // one of as many and slow ones: as many of the fastest, or all of them slowed down, as wait so.
  const auto rate_of = [&](double count, double cycle_s) {
    Fleet fleet = all;
    fleet.rate = count / cycle_s;
    fleet.rate_square = count / (cycle_s * cycle_s);
    return FleetRate(fleet, side.stations, traffic_.overlap, fit_.wait_share);
  };
  constexpr int kSteps = 14;
  double few_low = 1;
  double few_high = workers;
  double slow_low_s = alone_s;
  double slow_high_s = alone_s + workers * side.stations.sum() * kSlowestFactor;
  for (int i = 0; i < kSteps; ++i) {
    const double few = (few_low + few_high) / 2;
    (few / rate_of(few, alone_s) - alone_s <= wait_most_s ? few_low : few_high) = few;
    const double slow_s = std::sqrt(slow_low_s * slow_high_s);
    (workers / rate_of(workers, slow_s) - slow_s <= wait_most_s ? slow_high_s : slow_low_s) =
        slow_s;
  }
  const double rate = std::max(rate_of(few_high, alone_s), rate_of(workers, slow_low_s));
  return fit_.wait_share < 1 ? rate * kInStepSlack : rate;
}

SpeedBounds QueueSpeedModel::Bound(int workers, const ServerSide& servers) const {
  return BoundWithin(workers, servers, Loads(workers, servers));
}

SpeedBounds QueueSpeedModel::BoundWithin(
    int workers, const ServerSide& servers, const Range& load) const {
  SpeedBounds bounds;
  const Servers side = ServersOf(traffic_, fit_, servers);
  bounds.fleet_steps_per_s =
      RateMost(workers, servers, load.high) * traffic_.local_steps * kRounding;
  for (const WorkerClass& worker : classes_) {
    const CycleParts alone = AloneParts(worker, traffic_, side.stations);
    const auto rate_at = [&](double wait_s) {
      return traffic_.local_steps / CycleSeconds(Waiting(alone, wait_s), traffic_.overlap);
    };
    bounds.steps_per_s.push_back(rate_at(load.low));
    bounds.steps_per_s_min.push_back(rate_at(load.high));
  }
  return bounds;
}

}  // namespace ps::provisioner
