#pragma once

#include <memory>
#include <string>
#include <vector>

#include "provisioner/planner/planner.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/files/profile.h"
#include "run/planning/plan_request.h"
#include "run/planning/planning.h"

namespace ps::run {

// How often workers exchange (train.local_steps) and what values travel as (exchange.push, pull),
// chosen together with the fleet: a plan for each exchange, and the best of them.

/// The plan with one exchange.
struct ExchangePlan {
  std::unique_ptr<Planning> planning;
  provisioner::PlanAnswer answer;
  // What the objective compares, with revocations where the strategy counts them: USD, seconds, or
  // seconds for a sample of the profile's worth. Infinity without a fleet.
  double score = 0;

  const proto::ExchangeScheme& scheme() const { return planning->scheme; }
};

/// The command with what --push and --pull name, one each or several, in their places: several are
/// to be chosen among. Errors: kInvalidArgument.
Result<PlanCommand> WithEncodingsGiven(PlanCommand command);

/// The exchanges that come into question. Local steps: powers of two and some that are common, up
/// to the command's most, with the job's own; each with each of the command's encodings. More local
/// steps than the job's, and encodings that are chosen among, only where their penalty was
/// measured; `note` says what is left out for that. One for strategies that know no others, and for
/// a run that has its own. Requires: PreparePlan of `planning` was OK. Errors: kInvalidArgument.
Result<std::vector<proto::ExchangeScheme>> SchemesToTry(
    const PlanCommand& command, const Planning& planning, std::string* note);

/// Solves with each exchange of SchemesToTry, the best first; of equals the one with the fewest
/// local steps and the most bytes. Each plan is the strategy's own, so the first one is as certain
/// as the least certain of them (its answer says so). `prepared`: by PreparePlan with the same
/// command. `watch` sees all searches. Errors: as PreparePlan and SolvePlan.
Result<std::vector<ExchangePlan>> SolveForExchange(
    const PlanCommand& command,
    std::unique_ptr<Planning> prepared,
    provisioner::SearchWatch* watch);

/// Why the first of several is the best, and by how much: "local steps 50 of 1, 2, ...". Empty for
/// one. Requires: the first has a fleet.
std::string ExchangeReason(const PlanCommand& command, const std::vector<ExchangePlan>& plans);

}  // namespace ps::run
