#include "provisioner/planner/strategies.h"

#include <utility>

#include "provisioner/planner/infeasible.h"

namespace ps::provisioner {

Result<PlanAnswer> SolveByTrial(
    const PlanProblem& problem, std::string_view strategy, const TryFleets& try_fleets) {
  PS_TRY(CheckProblem(problem));
  FleetJudge judge(problem);
  BestFleets best(problem.answers_max);
  for (size_t server = 0; server < problem.servers.size(); ++server) {
    const ServerOffer& offer = problem.servers[server];
    for (int hosts = offer.hosts_min; hosts <= offer.hosts_max; ++hosts) {
      try_fleets(static_cast<int>(server), hosts, &judge, &best);
    }
  }
  PlanAnswer answer;
  answer.fleets_evaluated = judge.evaluated();
  answer.best = std::move(best).Take();
  if (answer.best.empty()) {
    answer.infeasible = ExplainInfeasible(problem, strategy);
  }
  return answer;
}

}  // namespace ps::provisioner
