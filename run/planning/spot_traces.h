#pragma once

#include <memory>
#include <string>
#include <vector>

#include "provisioner/planner/planner.h"
#include "provisioner/simulator/simulation_input.h"
#include "ps/base/status.h"
#include "ps/proto/files/catalog.h"
#include "run/planning/capacity/spot_capacity.h"
#include "run/planning/capacity/trace_problem.h"

namespace ps::run {

struct Planning;

/// How many spot machines of a type could be had over time, wherever, or in one zone.
struct SpotTrace {
  std::string type;
  std::string zone;                              // empty: wherever
  std::vector<provisioner::CapacityStep> steps;  // from 0 on, ascending
  double end_s = 0;
};

/// "p3.2xlarge", "p3.2xlarge in us-east-1d"
std::string NameOf(const SpotTrace& trace);

/// Whether no two say something of the same machines. Errors: kInvalidArgument naming both.
Status CheckSpotTraces(const std::vector<SpotTrace>& traces);

/// Lets the catalog sell types whose traces are of zones in these zones alone, at the price of each
/// or of the whole region; `notes` says so. Errors: kInvalidArgument (a type that the catalog lacks
/// or that has no price in a zone).
Status NarrowToTracedZones(
    const std::vector<SpotTrace>& traces, proto::Catalog* catalog, std::vector<std::string>* notes);

/// Makes offers of their own of such a type's zones. Requires: a problem made of that catalog.
/// Errors: kInvalidArgument (types with several minibatches, that hold parameters too, or that
/// run).
Result<std::vector<ZonedType>> SplitByZones(
    const std::vector<SpotTrace>& traces,
    const proto::Catalog& catalog,
    provisioner::PlanProblem* problem);

/// What fleets of the planning's problem come to along its traces. `limit_s`: how long a run may
/// take. Errors: kInvalidArgument (a type that is not on offer; a trace that is too short).
Result<std::unique_ptr<SpotCapacity>> MakeSpotCapacity(const Planning& planning, double limit_s);

}  // namespace ps::run
