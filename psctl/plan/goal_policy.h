#pragma once

#include <memory>
#include <string>

#include "provisioner/simulator/fleet_policy.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "psctl/plan/simulate_command.h"
#include "run/planning/planning.h"

namespace ps::psctl {

/// The policy that a job with a goal has in a run: psctl train's replanner, and the planner.
inline constexpr char kGoalPolicy[] = "goal";

/// A job with a goal, as `psctl simulate` runs it on machines of one type. Its loss falls as the
/// profile says of the largest fleet, which needs most steps; a smaller one is done sooner than the
/// simulation says.
class SimulatedGoal {
 public:
  /// Requires: the config has a goal. Errors: of the profile and the catalog; kInvalidArgument (no
  /// --profile, a profile without a loss, a loss that is never reached).
  static Result<std::unique_ptr<SimulatedGoal>> Make(
      const SimulateCommand& command, const proto::JobConfig& config, uint32_t workers);

  /// Steps of all workers together, until the goal.
  double steps_wanted() const { return steps_wanted_; }

  double samples_wanted() const { return steps_wanted_ * step_samples_; }

  double within_s() const { return static_cast<double>(config_.goal.within_s); }

  /// The loss of training after the steps. Requires: steps > 0.
  double LossAfter(double steps) const;

  /// Asks the planner when a run would. `job` and this outlive it.
  std::unique_ptr<provisioner::FleetPolicy> MakePolicy(const provisioner::SimulatedJob& job) const;

 private:
  class Policy;

  explicit SimulatedGoal(proto::JobConfig config) : config_(std::move(config)), planning_("") {}

  proto::JobConfig config_;  // with one group of workers
  std::string servers_;      // "m5.xlarge=1"
  run::Planning planning_;
  provisioner::FleetTraits largest_;
  double step_samples_ = 0;
  double steps_wanted_ = 0;
};

}  // namespace ps::psctl
