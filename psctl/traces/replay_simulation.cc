#include "psctl/traces/replay_simulation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "provisioner/simulator/simulated_run.h"
#include "provisioner/simulator/simulation_input.h"

namespace ps::psctl {
namespace {

using provisioner::FleetPolicy;
using provisioner::FleetView;
using provisioner::FleetWish;
using provisioner::SimulatedJob;

// The same draws as psctl simulate's first seed.
constexpr uint64_t kDraw = 1;

/// Remembers what another one wants.
class RecordedPolicy final : public FleetPolicy {
 public:
  explicit RecordedPolicy(std::unique_ptr<FleetPolicy> policy) : policy_(std::move(policy)) {}

  std::string_view name() const override { return policy_->name(); }

  FleetWish Decide(const FleetView& view) override {
    const FleetWish wish = policy_->Decide(view);
    if (fleets_.empty() || fleets_.back().fleet != wish) {
      fleets_.push_back({view.now_s, wish});
    }
    return wish;
  }

  provisioner::PolicyReason Explain() const override { return policy_->Explain(); }

  const std::vector<ReplayFleet>& fleets() const { return fleets_; }

 private:
  const std::unique_ptr<FleetPolicy> policy_;
  std::vector<ReplayFleet> fleets_;
};

/// In seconds of the trace.
Result<SimulatedJob> JobOf(const ReplaySetting& setting, const ReplayReport& report) {
  const run::LivePolicySettings& policy = setting.policy;
  if (!(policy.speed_of_one > 0)) {
    return Status::InvalidArgument("the workers' step_ms does not say how long a step takes");
  }
  SimulatedJob job;
  for (uint32_t n = 0; n <= policy.workers_max; ++n) {
    job.samples_per_s.push_back(n * policy.speed_of_one / report.speedup);
  }
  job.start_s = policy.start_s * report.speedup;
  job.step_samples = policy.step_samples;
  job.lost_s = policy.step_samples / job.samples_per_s[1];
  job.notice_s = setting.notice_s;
  job.interval_s = policy.interval_s * report.speedup;
  job.samples_wanted = report.samples_wanted;
  job.deadline_s = policy.deadline_s * report.speedup;
  job.spot_usd_per_hour = policy.spot_usd_per_hour;
  job.on_demand_usd_per_hour = policy.on_demand_usd_per_hour;
  return job;
}

}  // namespace

Result<ReplaySimulation> SimulateReplay(const ReplaySetting& setting, const ReplayReport& report) {
  // The policy goes by what the job says of starts, and the machines by what they took.
  PS_ASSIGN(SimulatedJob believed, JobOf(setting, report));
  SimulatedJob job = believed;
  job.start_s = report.start_s * report.speedup;
  // Whole intervals ahead of the trace, so that its beginning finds the first fleet at work.
  const double ahead_s = std::ceil(job.start_s / job.interval_s) * job.interval_s;
  const double end_s = ahead_s + setting.trace.end_s * report.speedup;
  const double early_s = ahead_s - job.start_s;
  const uint32_t first = std::min(setting.begins_with, job.workers_max());
  const double early_samples = early_s * job.samples_per_s[first];
  // A run's clock and its samples begin with the trace, so its goal is that much later here.
  for (SimulatedJob* some : {&believed, &job}) {
    some->samples_wanted += some->samples_wanted > 0 ? early_samples : 0;
    some->deadline_s += some->deadline_s > 0 ? ahead_s : 0;
  }
  std::vector<provisioner::CapacityStep> steps;
  for (const TraceStep& step : setting.trace.steps) {
    steps.push_back({step.at_s == 0 ? 0 : ahead_s + step.at_s * report.speedup, step.nodes});
  }
  const auto machines = provisioner::MachinesOf(steps, end_s, kDraw);
  job.lost_s = std::max(job.lost_s, 2 * provisioner::SimulatedStepSeconds(job, end_s, {}));
  PS_ASSIGN(auto made, provisioner::MakeFleetPolicy(setting.policy.policy, believed));
  RecordedPolicy policy(std::move(made));
  PS_ASSIGN(
      const provisioner::SimulationResult result,
      provisioner::SimulateWithCores(job, machines, end_s, &policy, {.seed = kDraw}));
  ReplaySimulation simulation;
  simulation.samples = std::max(0.0, result.samples - early_samples);
  for (const ReplayFleet& some : policy.fleets()) {
    simulation.fleets.push_back({std::max(0.0, some.at_s - ahead_s), some.fleet});
  }
  simulation.fleets = FleetsByInterval(simulation.fleets, job.interval_s);
  return simulation;
}

}  // namespace ps::psctl
