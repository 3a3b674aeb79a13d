#pragma once

#include <string>
#include <utility>
#include <vector>

#include "provisioner/model/job_models.h"
#include "provisioner/planner/plan_setup.h"
#include "provisioner/planner/planner.h"
#include "provisioner/profile/local_steps.h"
#include "provisioner/report/outlook.h"
#include "provisioner/report/sensitivity.h"
#include "provisioner/unseen/unseen_types.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"
#include "run/planning/capacity/trace_problem.h"
#include "run/planning/plan_request.h"
#include "run/planning/spot_traces.h"
#include "run/planning/start_plan.h"

namespace ps::run {

// Strategies of `psctl plan` that are no search for a cheapest fleet, and have a command of their
// own.
inline constexpr char kDeepVmStrategy[] = "deepvm";
inline constexpr char kParcaeStrategy[] = "parcae";

/// Files, models and the problem of one plan or prediction. Stays where it is: `input` points into
/// it.
struct Planning {
  static constexpr double kHeldBytes = 1024.0 * 1024 * 1024;  // of a job that says nothing

  /// `day`: today, as "2026-07-20".
  explicit Planning(std::string day) : today(std::move(day)) {}

  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;

  std::string today;
  proto::Catalog catalog;
  proto::JobProfile profile;
  std::vector<provisioner::UnseenType> unseen;  // workers of the profile that were reckoned
  provisioner::JobModels models;
  provisioner::PlanInput input;  // input.setup: quotas, servers and limits are the caller's to fill
  provisioner::PlanProblem problem;
  // That made goal.steps_done steps; the caller's to fill.
  std::vector<provisioner::TypeCount> done_by;
  std::vector<MeasuredStep> measured;  // instead of the profile's; the caller's to fill
  std::vector<std::string> notes;      // on the job and its profile, a line each
  proto::ExchangeScheme own;           // of the job, or else of the profile
  proto::ExchangeScheme scheme;        // that is planned for
  int local_steps_max = provisioner::kLocalStepsMax;  // that a step of the job has room for
  std::string mode = "async";                         // of the job
  std::string launcher;                               // of the job's workers; empty: there is none
  std::vector<MeasuredStart> starts;                  // of types of the catalog
  double held_bytes_max = kHeldBytes;  // of a server host, as the job says (servers.held_mib)
  // For a plan.
  std::vector<SpotTrace> spot_traces;  // of spot machines that could be had; the caller's to fill
  std::vector<ZonedType> zoned;        // types of `problem` whose zones are told apart for these
  proto::Objective objective = proto::Objective::kCost;
  provisioner::OutlookSetup outlook;
};

/// Reads and checks the files, makes models and problem of them and of planning->input.setup.
/// Errors: kInvalidArgument, kNotFound, one line each.
Status PreparePlanning(const PlanningCommand& command, Planning* planning);

/// The same for a plan: with the command's goal, and a loss model. `effort`: the longest that its
/// searches may take. Errors: as above.
Status PreparePlan(const PlanCommand& command, Planning* planning, Duration* effort);

/// By the command's strategy. Requires: PreparePlan was OK.
Result<provisioner::PlanAnswer> SolvePlan(const PlanCommand& command, Planning* planning);

/// The fleets that the command's strategy chooses by its objective, the best first. Errors: as the
/// strategy's.
Result<provisioner::PlanAnswer> SolveProblem(
    const PlanCommand& command, const Planning& planning, const provisioner::PlanProblem& problem);

/// What becomes of the learning rate of a run with so many workers; empty: nothing.
std::string ListedRateNote(const Planning& planning, int workers);

/// Share of the workers' time in which they compute, 0 to 1.
double ComputingShare(
    const provisioner::PlanProblem& problem, const provisioner::FleetChoice& choice);

/// Whether fleets are compared by what they cost with revocations.
bool CountsRevocations(const PlanCommand& command);

/// Whether the fleet is chosen by the command's traces (SolveAlongTraces), beside what is chosen
/// without them.
bool ChoosesByTraces(const PlanCommand& command);

/// As SolveProblem, by another objective.
Result<provisioner::PlanAnswer> SolveFor(
    const PlanCommand& command,
    const Planning& planning,
    const provisioner::PlanProblem& problem,
    proto::Objective objective);

/// What to say of a fleet; the other plans and the quotas are the caller's.
proto::Plan PlanOf(
    const Planning& planning, const provisioner::FleetChoice& choice, const std::string& strategy);

/// How many of each of the problem's offers. Errors: kNotFound naming a type that the catalog or
/// the profile lacks.
Result<std::vector<int>> CountsByOffer(
    const provisioner::PlanProblem& problem, const std::vector<provisioner::TypeCount>& workers);

/// Another fleet to compare with.
proto::PlanAlternative AlternativeOf(
    const provisioner::PlanProblem& problem,
    const proto::JobProfile& profile,
    const provisioner::FleetChoice& choice,
    const std::string& kind);

}  // namespace ps::run
