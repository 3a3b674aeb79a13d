#include "provisioner/simulator/fleet_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "provisioner/strategies/deadline.h"
#include "provisioner/strategies/forecast.h"
#include "provisioner/strategies/look_ahead.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

/// The wish, and the counts of spot machines beside it: one less, one more, and as many as can be
/// had. Each once, ascending.
template <typename WorthOf>
std::vector<FleetAlternative> AlternativesTo(
    uint32_t spot, uint32_t available, uint32_t most, const WorthOf& worth_of) {
  const uint32_t top = std::min(available, most);
  std::set<uint32_t> counts = {spot, top, std::min(spot + 1, top)};
  counts.insert(spot - std::min(spot, 1U));
  std::vector<FleetAlternative> alternatives;
  for (const uint32_t count : counts) {
    alternatives.push_back({{.spot = count}, worth_of(count)});
  }
  return alternatives;
}

/// All that can be had, at once.
class ReactivePolicy : public FleetPolicy {
 public:
  ReactivePolicy(const SimulatedJob& job, double spare_share, std::string_view name)
      : job_(job),
        wanted_(
            job.workers_max() + static_cast<uint32_t>(std::ceil(job.workers_max() * spare_share))),
        name_(name) {}

  std::string_view name() const override { return name_; }

  FleetWish Decide(const FleetView& view) override {
    available_ = view.available;
    return {.spot = std::min(view.available, wanted_)};
  }

  PolicyReason Explain() const override {
    const uint32_t spot = std::min(available_, wanted_);
    const uint32_t spares = wanted_ - job_.workers_max();
    PolicyReason reason;
    reason.why = spot == wanted_ ? fmt::format("{} are enough", wanted_)
                                 : fmt::format("all {} that can be had", spot);
    reason.why +=
        spares > 0 ? fmt::format(", {} as spares", spot - std::min(spot, wanted_ - spares)) : "";
    reason.worth_of = "samples/s";
    reason.alternatives = AlternativesTo(spot, available_, wanted_, [this](uint32_t count) {
      return job_.samples_per_s[std::min(count, job_.workers_max())];
    });
    return reason;
  }

 private:
  const SimulatedJob& job_;
  const uint32_t wanted_;
  const std::string_view name_;
  uint32_t available_ = 0;
};

/// Once an interval: as many as are expected to be worth their start over the intervals after it.
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
    available_ = view.available;
    return {.spot = std::min(wanted_, view.available)};
  }

  PolicyReason Explain() const override {
    PolicyReason reason;
    const uint32_t spot = std::min(wanted_, available_);
    reason.why = available_ == available_then_
                     ? fmt::format("{} are worth their start", wanted_)
                     : fmt::format(
                           "{} were worth their start when {} could be had, now {} can",
                           wanted_,
                           available_then_,
                           available_);
    reason.forecast = forecast_;
    for (double& count : reason.forecast) {
      count = std::min<double>(count, job_.workers_max());
    }
    reason.worth_of = "samples";
    const LookAheadView view = {available_then_, working_, forecast_};
    // What was not looked at has no worth: more can be had now than then.
    const uint32_t most = std::min(available_then_, job_.workers_max());
    reason.alternatives =
        AlternativesTo(std::min(spot, most), available_, most, [&](uint32_t count) {
          return ExpectSamples(LookAhead(), view, count);
        });
    return reason;
  }

 private:
  LookAheadJob LookAhead() const {
    return {
        .samples_per_s = job_.samples_per_s,
        .start_s = job_.start_s,
        .interval_s = job_.interval_s};
  }

  uint32_t Choose(const FleetView& view) {
    forecast_ = ForecastAhead(LookAhead(), predictor_.get(), view.counts);
    available_then_ = view.available;
    working_ = view.spot_working;
    return ChooseWorkers(LookAhead(), {available_then_, working_, forecast_});
  }

  const SimulatedJob& job_;
  const std::unique_ptr<CountPredictor> predictor_;
  const std::string_view name_;
  uint32_t wanted_ = 0;
  // What it was chosen by.
  std::vector<double> forecast_;
  uint32_t available_then_ = 0;
  uint32_t working_ = 0;
  uint32_t available_ = 0;  // when it was asked last
};

DeadlineJob DeadlineOf(const SimulatedJob& job) {
  return {
      .deadline_s = job.deadline_s,
      .work_s = job.samples_wanted / job.samples_per_s.back(),
      .changeover_s = job.start_s + job.lost_s + job.detect_s,
      .interval_s = job.interval_s};
}

/// "Can't be late" for workers that need not be whole: those that spot machines lack are on demand
/// while progress is behind, and all are from the latest safe moment on. Machines of one market
/// that work are kept until those of the other one do.
class DeadlinePolicy : public FleetPolicy {
 public:
  explicit DeadlinePolicy(const SimulatedJob& job) : job_(job) {}

  std::string_view name() const override { return "deadline"; }

  FleetWish Decide(const FleetView& view) override {
    const DeadlineJob deadline = DeadlineOf(job_);  // anew: a run's speed is measured as it goes
    const uint32_t all = job_.workers_max();
    const uint32_t spot = std::min(view.available, all);
    const double left_s =
        std::max(0.0, job_.samples_wanted - view.samples) / job_.samples_per_s.back();
    slack_s_ = LatestOnDemandStart(deadline, left_s) - view.now_s;
    spot_ = spot;
    is_final_ = is_final_ || slack_s_ <= 0;
    if (is_final_) {
      const uint32_t lacking = all - std::min(view.on_demand_working, all);
      return Wish({.spot = std::min({spot, view.spot, lacking}), .on_demand = all});
    }
    const DeadlineChoice choice = DecideByDeadline(
        deadline,
        {.now_s = view.now_s,
         .work_left_s = left_s,
         .has_spot = spot == all,
         .running = view.on_demand > 0 ? DeadlineChoice::kOnDemand : DeadlineChoice::kSpot});
    // Machines on demand whose places no spot machine that works has taken over yet.
    const uint32_t needed = std::min(view.on_demand, all - std::min(view.spot_working, all));
    if (choice != DeadlineChoice::kOnDemand) {
      return Wish({.spot = spot, .on_demand = needed});
    }
    // Machines on demand that work are kept until all can be spot machines. Spot machines that were
    // started for such a change are kept, too, if others of them are gone.
    const uint32_t on_demand = std::max(needed, all - spot);
    return Wish(
        {.spot = std::max(all - on_demand, std::min(view.spot, spot)), .on_demand = on_demand});
  }

  PolicyReason Explain() const override {
    const uint32_t all = job_.workers_max();
    PolicyReason reason;
    if (is_final_) {
      reason.why = "machines on demand alone can meet the deadline surely from now on";
    } else {
      reason.why = fmt::format(
          "{}; all have to be on demand in {} at the latest",
          wish_.on_demand == 0 ? "progress allows spot machines alone"
          : wish_.spot == all  ? "progress allows spot machines alone, once they work"
          : spot_ == all       ? "progress is not far enough ahead for a change to spot machines"
                               : "progress is behind or was, and spot machines are missing",
          FormatDuration(slack_s_));
    }
    reason.worth_of = "USD/h";
    const auto add = [&](const FleetWish& fleet) {
      const double usd =
          fleet.spot * job_.spot_usd_per_hour + fleet.on_demand * job_.on_demand_usd_per_hour;
      if (std::ranges::count(reason.alternatives, fleet, &FleetAlternative::fleet) == 0) {
        reason.alternatives.push_back({fleet, usd});
      }
    };
    add(wish_);
    add({.spot = spot_});
    add({.spot = spot_, .on_demand = all - spot_});
    add({.on_demand = all});
    return reason;
  }

 private:
  FleetWish Wish(const FleetWish& wish) {
    wish_ = wish;
    return wish;
  }

  const SimulatedJob& job_;
  bool is_final_ = false;
  // The newest answer, for Explain.
  FleetWish wish_;
  uint32_t spot_ = 0;  // that can be had, as far as needed
  double slack_s_ = 0;
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
  return {"reactive", "hold", "parcae", "standby", "deadline"};
}

Result<std::unique_ptr<FleetPolicy>> MakeFleetPolicy(
    std::string_view name, const SimulatedJob& job) {
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
