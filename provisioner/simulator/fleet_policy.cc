#include "provisioner/simulator/fleet_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "provisioner/strategies/deadline.h"
#include "provisioner/strategies/forecast.h"
#include "provisioner/strategies/look_ahead.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr double kSpareShare = 0.1;

/// All that can be had, at once.
class ReactivePolicy : public FleetPolicy {
 public:
  ReactivePolicy(const SimulatedJob& job, double spare_share, std::string_view name)
      : wanted_(
            job.workers_max() + static_cast<uint32_t>(std::ceil(job.workers_max() * spare_share))),
        name_(name) {}

  std::string_view name() const override { return name_; }

  FleetWish Decide(const FleetView& view) override {
    return {.spot = std::min(view.available, wanted_)};
  }

 private:
  const uint32_t wanted_;
  const std::string_view name_;
};

/// Once an interval: as many as are expected to be worth their start over the next intervals.
class LookAheadPolicy : public FleetPolicy {
 public:
  LookAheadPolicy(
      const SimulatedJob& job, std::unique_ptr<CountPredictor> predictor, std::string_view name)
      : job_(job), predictor_(std::move(predictor)), name_(name) {}

  std::string_view name() const override { return name_; }

  FleetWish Decide(const FleetView& view) override {
    if (view.is_interval) {
      wanted_ = Choose(view);
    }
    return {.spot = std::min(wanted_, view.available)};
  }

 private:
  uint32_t Choose(const FleetView& view) {
    const std::vector<double> counts = predictor_->Predict(view.counts, kLookAheadIntervals);
    return ChooseWorkers(
        {.samples_per_s = job_.samples_per_s,
         .start_s = job_.start_s,
         .interval_s = job_.interval_s},
        {view.available, view.spot_working, counts});
  }

  const SimulatedJob& job_;
  const std::unique_ptr<CountPredictor> predictor_;
  const std::string_view name_;
  uint32_t wanted_ = 0;
};

DeadlineJob DeadlineOf(const SimulatedJob& job) {
  return {
      .deadline_s = job.deadline_s,
      .work_s = job.samples_wanted / job.samples_per_s.back(),
      .changeover_s = job.start_s + job.lost_s + job.detect_s,
      .interval_s = job.interval_s};
}

/// "Can't be late" for workers that need not be whole: those that spot machines lack are on demand
/// while progress is behind, and all are from the latest safe moment on.
class DeadlinePolicy : public FleetPolicy {
 public:
  explicit DeadlinePolicy(const SimulatedJob& job) : job_(job), deadline_(DeadlineOf(job)) {}

  std::string_view name() const override { return "deadline"; }

  FleetWish Decide(const FleetView& view) override {
    const uint32_t all = job_.workers_max();
    const uint32_t spot = std::min(view.available, all);
    const double left_s =
        std::max(0.0, job_.samples_wanted - view.samples) / job_.samples_per_s.back();
    is_final_ = is_final_ || view.now_s >= LatestOnDemandStart(deadline_, left_s);
    if (is_final_) {
      return {.on_demand = all};
    }
    const DeadlineChoice choice = DecideByDeadline(
        deadline_,
        {.now_s = view.now_s,
         .work_left_s = left_s,
         .has_spot = spot == all,
         .running = view.on_demand > 0 ? DeadlineChoice::kOnDemand : DeadlineChoice::kSpot});
    if (choice != DeadlineChoice::kOnDemand) {
      return {.spot = spot};
    }
    // Machines on demand that work are kept until all can be spot machines.
    const uint32_t on_demand = std::max(view.on_demand, all - spot);
    return {.spot = all - on_demand, .on_demand = on_demand};
  }

 private:
  const SimulatedJob& job_;
  const DeadlineJob deadline_;
  bool is_final_ = false;
};

/// Knows when each machine goes: it is left just before, and the next one is started in time.
class OraclePolicy : public FleetPolicy {
 public:
  OraclePolicy(const SimulatedJob& job, std::span<const SpotMachine> machines)
      : schedule_(machines.size()) {
    // Machines that could work, by the moment from which on they could.
    std::vector<std::pair<double, size_t>> arrivals;
    for (size_t i = 0; i < machines.size(); ++i) {
      if (machines[i].end_s > machines[i].begin_s + job.start_s) {
        arrivals.emplace_back(machines[i].begin_s + job.start_s, i);
      }
    }
    std::ranges::sort(arrivals);
    std::set<std::pair<double, size_t>> working;  // by their ends
    std::set<std::pair<double, size_t>> waiting;
    size_t next = 0;
    double now_s = 0;
    const auto fill = [&] {
      while (working.size() < job.workers_max() && !waiting.empty()) {
        const auto best = std::prev(waiting.end());
        schedule_[best->second] = {.begin_s = now_s - job.start_s, .end_s = best->first};
        working.insert(*best);
        waiting.erase(best);
      }
    };
    while (next < arrivals.size() || !working.empty()) {
      const double end_s = working.empty() ? kNever : working.begin()->first;
      const double arrival_s = next < arrivals.size() ? arrivals[next].first : kNever;
      now_s = std::min(end_s, arrival_s);
      if (now_s == kNever) {
        break;
      }
      while (!working.empty() && working.begin()->first <= now_s) {
        working.erase(working.begin());
      }
      while (next < arrivals.size() && arrivals[next].first <= now_s) {
        const size_t i = arrivals[next++].second;
        waiting.emplace(machines[i].end_s, i);
      }
      while (!waiting.empty() && waiting.begin()->first <= now_s) {
        waiting.erase(waiting.begin());
      }
      fill();
    }
  }

  std::string_view name() const override { return "oracle"; }

  FleetWish Decide(const FleetView& view) override { return {.spot = view.spot}; }

  const std::vector<SpotMachine>* schedule() const override { return &schedule_; }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<SpotMachine> schedule_;  // empty spans: not wanted
};

Status CheckDeadline(const SimulatedJob& job) {
  if (!(job.samples_wanted > 0) || !(job.deadline_s > 0)) {
    return Status::InvalidArgument(
        "the policy deadline needs a goal: so many samples within so much time");
  }
  if (!(job.on_demand_usd_per_hour > 0)) {
    return Status::InvalidArgument("the policy deadline needs a price on demand (--on-demand-usd)");
  }
  const DeadlineJob deadline = DeadlineOf(job);
  if (!IsDeadlineReachable(deadline)) {
    return Status::InvalidArgument(fmt::format(
        "the policy deadline can't promise {:.0f} samples within {}: {} machines on demand need "
        "{}, changes and doubt included",
        job.samples_wanted,
        FormatDuration(job.deadline_s),
        job.workers_max(),
        FormatDuration(job.deadline_s - LatestOnDemandStart(deadline, deadline.work_s))));
  }
  return Status::Ok();
}

}  // namespace

std::vector<std::string_view> FleetPolicyNames() {
  return {"reactive", "hold", "parcae", "standby", "deadline", "oracle"};
}

Result<std::unique_ptr<FleetPolicy>> MakeFleetPolicy(
    std::string_view name, const SimulatedJob& job, std::span<const SpotMachine> machines) {
  std::unique_ptr<FleetPolicy> policy;
  if (name == "reactive") {
    policy = std::make_unique<ReactivePolicy>(job, 0, "reactive");
  } else if (name == "standby") {
    policy = std::make_unique<ReactivePolicy>(job, kSpareShare, "standby");
  } else if (name == "hold") {
    policy = std::make_unique<LookAheadPolicy>(
        job, MakePredictor("current", kLookAheadIntervals, {}), "hold");
  } else if (name == "parcae") {
    // Parcae's own bounds are 8 and 32 machines, all of its trace. Above the workers there is none
    // here: a forecast cut off there would make losses of machines that are merely not needed.
    const ParcaeBounds bounds = {
        .low = static_cast<int>(job.workers_max() / 4), .high = std::numeric_limits<int>::max()};
    policy = std::make_unique<LookAheadPolicy>(
        job, MakePredictor("parcae-arima", kLookAheadIntervals, bounds), "parcae");
  } else if (name == "deadline") {
    PS_TRY(CheckDeadline(job));
    policy = std::make_unique<DeadlinePolicy>(job);
  } else if (name == "oracle") {
    policy = std::make_unique<OraclePolicy>(job, machines);
  } else {
    const std::string nearest = NearestName(name, FleetPolicyNames());
    return Status::NotFound(fmt::format(
        "no policy '{}'; {}",
        Printable(name),
        nearest.empty() ? "there are " + Join(FleetPolicyNames())
                        : "did you mean '" + nearest + "'?"));
  }
  return policy;
}

}  // namespace ps::provisioner
