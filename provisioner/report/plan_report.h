#pragma once

#include <string>
#include <vector>

#include "provisioner/planner/plan_setup.h"
#include "provisioner/planner/planner.h"
#include "provisioner/report/sensitivity.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

/// A fleet as the file that `psctl train --plan` runs. Without a loss model and a loss to reach,
/// steps, seconds and usd stay 0. What it is compared with is the caller's to add.
proto::Plan PlanOf(
    const PlanProblem& problem,
    const proto::JobProfile& profile,
    const FleetChoice& choice,
    const std::string& strategy);

/// What to say where the speed model promises more bytes than the servers' links carry either way,
/// as the published equations of "spotdnn" and "ideal" may; empty where it does not.
std::string OverpromiseText(
    const PlanProblem& problem, const JobTraffic& traffic, const FleetChoice& choice);

/// "2 p3.2xlarge, 4 g3.8xlarge (on demand)", or "2 p3.2xlarge, on demand" when all are;
/// `names_minibatches`: "2 p3.2xlarge:512".
std::string FleetText(
    const std::vector<proto::PlanWorkers>& workers,
    bool names_minibatches,
    const std::vector<std::string>& zoned = {});

/// Whether a type is there with several minibatches, so that its name alone does not tell.
bool HasSeveralMinibatches(const SpeedModel& speed);

/// "us-east-1", or "us-east-1a: p3.2xlarge; us-east-1b: g3.8xlarge, g4dn.xlarge"; empty where no
/// worker's zone is known.
std::string ZonesText(const std::vector<proto::PlanWorkers>& workers);

/// "1 m5.xlarge", or "1 m5.xlarge in us-east-1a"
std::string ServersText(const proto::PlanServers& servers);

/// One size of fleet in the plot.
struct PlotPoint {
  int workers = 0;
  FleetChoice choice;
  std::string fleet;
  bool is_in_time = false;
};

/// For every number of workers up to `workers_max`, behind the servers of `choice`: the cheapest
/// fleet that meets the goal, or the fastest when none does. Sizes without a fleet are left out.
std::vector<PlotPoint> PlotPoints(
    const PlanProblem& problem, const FleetChoice& choice, int workers_max);

struct PlotTexts {
  std::string title;
  std::string subtitle;
};

/// Speed and cost over the number of workers, with what limits each size and which fleet it is of,
/// as one SVG document that follows the reader's light or dark scheme. `chosen_workers` is marked;
/// 0 marks none. Requires: a point.
std::string PlotSvg(
    const std::vector<PlotPoint>& points, int chosen_workers, const PlotTexts& texts);

/// In what a fleet of `workers` and the loss that it is to reach lie outside of what the profile's
/// curves saw, so that its steps are extrapolated: a line each. `loss` 0: none.
std::vector<std::string> BeyondProfile(const proto::JobProfile& profile, double loss, int workers);

}  // namespace ps::provisioner
