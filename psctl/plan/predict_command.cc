#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "provisioner/planner/memory_fit.h"
#include "provisioner/report/plan_report.h"
#include "ps/base/text.h"
#include "psctl/plan/plan_command.h"
#include "psctl/view/plan_view.h"
#include "run/planning/plan_arguments.h"
#include "run/planning/planning.h"

namespace ps::psctl {
namespace {

/// The counts per offer that the user asked for.
Result<std::vector<int>> CountsOf(
    const provisioner::PlanProblem& problem, const std::vector<provisioner::TypeCount>& fleet) {
  std::vector<int> counts(problem.offers.size(), 0);
  for (const provisioner::TypeCount& wanted : fleet) {
    const int worker_class = provisioner::FindClass(*problem.speed, wanted);
    if (worker_class < 0) {
      return Status::InvalidArgument(fmt::format(
          "--fleet: the profile has no figures of {} with a minibatch of {}",
          Printable(wanted.instance_type),
          wanted.minibatch));
    }
    bool is_found = false;
    for (size_t i = 0; i < problem.offers.size(); ++i) {
      if (problem.offers[i].worker_class == worker_class) {
        counts[i] += wanted.count;
        is_found = true;
      }
    }
    const auto too_small = std::ranges::find_if(problem.left_out, [&](const auto& some) {
      return !some.is_server && (some.instance_type == wanted.instance_type ||
                                 some.instance_type.starts_with(wanted.instance_type + ":"));
    });
    if (!is_found && too_small != problem.left_out.end()) {
      return Status::Unsupported(fmt::format(
          "--fleet: no worker of the job fits {}: {}", too_small->instance_type, too_small->why));
    }
    if (!is_found) {
      return Status::InvalidArgument(fmt::format(
          "--fleet: {} is not sold in this market; try --market both",
          Printable(wanted.instance_type)));
    }
  }
  if (provisioner::WorkersOf(counts) == 0) {
    return Status::InvalidArgument("--fleet has no worker in it, as in g4dn.4xlarge=2");
  }
  return counts;
}

/// Errors: kUnsupported when the profile can tell no time to the loss, else as PreparePlanning.
Result<proto::Plan> Predict(const run::PredictCommand& command, run::Planning* planning) {
  provisioner::PlanSetup& setup = planning->input.setup;
  setup.goal.seconds_max = std::numeric_limits<double>::infinity();
  setup.goal.usd_max = std::numeric_limits<double>::infinity();
  PS_ASSIGN(const auto fleet, run::ParseTypeCounts("--fleet", command.fleet));
  PS_ASSIGN(setup.servers, run::ParseServerRanges("--ps", {command.servers}));
  if (setup.servers.size() != 1 ||
      setup.servers.front().hosts_min != setup.servers.front().hosts_max) {
    return Status::InvalidArgument("--ps wants one type and a number, as in m5.xlarge=1");
  }
  std::vector<std::string>& types = planning->input.models.instance_types;
  for (const provisioner::TypeCount& count : fleet) {
    if (std::ranges::count(types, count.instance_type) == 0) {
      types.push_back(count.instance_type);
    }
  }
  PS_TRY(run::PreparePlanning(command.common, planning));
  provisioner::PlanProblem& problem = planning->problem;
  PS_ASSIGN(const std::vector<int> counts, CountsOf(problem, fleet));
  const int hosts = setup.servers.front().hosts_min;
  PS_TRY(provisioner::CheckServerMemory(
      problem.servers.front(), provisioner::WorkersOf(counts), hosts));
  if (command.common.loss > 0) {
    if (problem.loss == nullptr) {
      return Status::InvalidArgument(fmt::format(
          "{}: no loss curve is fitted; leave --loss out for the speed",
          command.common.profile_path));
    }
    provisioner::FleetJudge judge(problem);
    provisioner::FleetChoice choice = judge.Choose(counts, 0, hosts);
    for (size_t server = 1; server < problem.servers.size(); ++server) {  // in another zone
      provisioner::FleetChoice other = judge.Choose(counts, static_cast<int>(server), hosts);
      if (other.usd < choice.usd) {
        choice = std::move(other);
      }
    }
    if (std::string why = provisioner::WhyNoTime(problem, choice); !why.empty()) {
      return Status::Unsupported(std::move(why));
    }
    return run::PlanOf(*planning, choice, "");
  }
  provisioner::FleetChoice choice;
  std::vector<int> class_counts(problem.speed->classes().size(), 0);
  for (size_t i = 0; i < counts.size(); ++i) {
    class_counts[static_cast<size_t>(problem.offers[i].worker_class)] += counts[i];
  }
  choice.counts = counts;
  choice.server_hosts = hosts;
  choice.speed =
      problem.speed->Predict(class_counts, {hosts, problem.servers.front().link_bytes_per_s});
  return run::PlanOf(*planning, choice, "");
}

}  // namespace

int RunPredict(
    const run::PredictCommand& command, const std::string& today, const run::Console& console) {
  run::Planning planning(today);
  const Result<proto::Plan> plan = Predict(command, &planning);
  if (!plan.ok()) {
    const bool is_beyond = plan.status().code() == StatusCode::kUnsupported;
    return is_beyond ? run::Fail(console, plan.status()) : run::Misuse(console, plan.status());
  }
  console.out(
      command.common.is_json
          ? proto::PrintPlan(*plan)
          : RenderPlan(
                *plan,
                {.names_minibatches = provisioner::HasSeveralMinibatches(*planning.problem.speed),
                 .width_max = console.out_width}));
  return run::kExitOk;
}

}  // namespace ps::psctl
