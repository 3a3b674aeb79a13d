#include "provisioner/simulator/simulated_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace ps::provisioner {
namespace {

/// What a trace brings, in this order at one moment.
enum class EventKind : unsigned char { kPriced, kNoticed, kGone, kAppears, kInterval };

/// When, what, and of which machine or price.
using Event = std::tuple<double, EventKind, size_t>;

class SimulatedRun {
 public:
  SimulatedRun(
      const SimulatedJob& job,
      std::span<const SpotMachine> machines,
      double end_s,
      FleetPolicy* policy,
      const CoresOptions& options)
      : job_(job),
        end_s_(end_s),
        policy_(policy),
        cluster_(job, end_s, machines.size(), options),
        book_(job),
        is_available_(machines.size()) {
    for (size_t i = 0; i < job.spot_prices.size(); ++i) {
      Add(job.spot_prices[i].at_s, EventKind::kPriced, i);
    }
    for (size_t i = 0; i < machines.size(); ++i) {
      Add(machines[i].begin_s, EventKind::kAppears, i);
      if (job.notice_s > 0) {
        Add(machines[i].end_s, EventKind::kNoticed, i);
      }
      Add(machines[i].end_s + job.notice_s, EventKind::kGone, i);
    }
    Add(0, EventKind::kInterval, 0);
  }

  Result<SimulationResult> Run() {
    cluster_.Start();
    while (!cluster_.is_over()) {
      const double event_s = events_.empty() ? kNeverS : std::get<0>(events_.top());
      Pass(std::min({event_s, cluster_.next_at_s(), end_s_}));
      if (cluster_.now_s() >= end_s_) {
        break;
      }
      ++book_.result.events;
      bool is_asked = cluster_.Act();
      bool is_noted = is_asked;
      while (!events_.empty() && std::get<0>(events_.top()) <= cluster_.now_s()) {
        const Event event = events_.top();
        events_.pop();
        ++book_.result.events;
        is_asked = Take(std::get<1>(event), std::get<2>(event)) || is_asked;
        is_noted = true;
      }
      if (is_asked && !cluster_.is_over()) {
        Ask();
      }
      cluster_.Tick();
      if (is_noted) {
        Note();
      }
      PS_TRY(cluster_.Check());
    }
    return Close();
  }

 private:
  void Add(double at_s, EventKind kind, size_t which) {
    if (at_s < end_s_) {
      events_.emplace(at_s, kind, which);
    }
  }

  SimulatedFleet FleetNow() const {
    return {
        available_,
        cluster_.held(Market::kSpot),
        cluster_.held(Market::kOnDemand),
        std::min(cluster_.computing(), job_.workers_max())};
  }

  void Pass(double until_s) {
    const SimulatedFleet fleet = FleetNow();
    const double seconds = until_s - cluster_.now_s();
    book_.Pass(seconds, fleet, seconds * job_.samples_per_s[fleet.working]);
    cluster_.Pass(until_s);
  }

  /// Whether the policy is to be asked.
  bool Take(EventKind kind, size_t which) {
    switch (kind) {
      case EventKind::kPriced:
        book_.SetSpotPrice(job_.spot_prices[which].usd_per_hour);
        return false;
      case EventKind::kNoticed:
        Remove(which);
        cluster_.GiveNotice(which);
        return true;
      case EventKind::kGone:
        Remove(which);
        cluster_.Revoke(which);
        return true;
      case EventKind::kAppears:
        is_available_[which] = true;
        ++available_;
        cluster_.Offer(which);
        return true;
      case EventKind::kInterval:
        counts_.push_back(available_);
        is_interval_ = true;
        Add(static_cast<double>(counts_.size()) * job_.interval_s, EventKind::kInterval, 0);
        return true;
    }
    return false;
  }

  /// It can be had no more, which may be known since its notice.
  void Remove(size_t machine) {
    available_ -= is_available_[machine] ? 1 : 0;
    is_available_[machine] = false;
  }

  /// Lets the policy decide, and asks the coordinator for it. A machine that is gone without
  /// anybody knowing counts as one that can be had.
  void Ask() {
    const SimulatedCluster::FleetKnown known = cluster_.known();
    const uint32_t available = available_ + cluster_.untold();
    FleetWish wish = policy_->Decide(
        {.now_s = cluster_.now_s(),
         .is_interval = std::exchange(is_interval_, false),
         .counts = counts_,
         .available = available,
         .spot = known.spot,
         .spot_working = known.spot_working,
         .on_demand = known.on_demand,
         .on_demand_working = known.on_demand_working,
         .samples = cluster_.samples()});
    wish.spot = std::min(wish.spot, available);
    if (wish != wish_) {
      ++book_.result.plans;
      wish_ = wish;
      cluster_.Want(wish);
    }
  }

  void Note() { book_.Note(cluster_.now_s(), FleetNow(), cluster_.samples()); }

  Result<SimulationResult> Close() {
    cluster_.ReportAll();
    PS_TRY(cluster_.Check());
    PS_TRY(cluster_.CheckState());
    SimulationResult& result = book_.result;
    result.seconds = cluster_.now_s();
    result.is_reached = cluster_.is_over();
    result.samples = static_cast<double>(cluster_.samples_counted());
    result.lost_node_s = cluster_.lost_node_s();
    result.revocations = cluster_.revocations();
    result.starts = cluster_.starts();
    result.failed_starts = cluster_.failed_starts();
    result.events += cluster_.messages();
    result.steps = cluster_.steps();
    book_.Note(result.seconds, FleetNow(), result.samples);
    return std::move(result);
  }

  const SimulatedJob& job_;
  const double end_s_;
  FleetPolicy* const policy_;
  SimulatedCluster cluster_;
  SimulationBook book_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<bool> is_available_;  // by machine
  uint32_t available_ = 0;
  std::vector<uint32_t> counts_;
  bool is_interval_ = false;
  FleetWish wish_;
};

}  // namespace

Result<SimulationResult> SimulateWithCores(
    const SimulatedJob& job,
    std::span<const SpotMachine> machines,
    double end_s,
    FleetPolicy* policy,
    const CoresOptions& options) {
  PS_TRY(CheckSimulation(job, end_s));
  if (!(job.step_samples > 0) || !std::isfinite(job.step_samples)) {
    return Status::InvalidArgument(
        "a simulation with the production cores needs the samples of a worker's step");
  }
  if (!(options.steps_max >= 1)) {
    return Status::InvalidArgument("a simulation makes one step at least");
  }
  if (job.workers_max() > kCoresWorkersMax) {
    return Status::InvalidArgument(fmt::format(
        "a simulation with the production cores has at most {} workers", kCoresWorkersMax));
  }
  return SimulatedRun(job, machines, end_s, policy, options).Run();
}

}  // namespace ps::provisioner
