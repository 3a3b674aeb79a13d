#include "run/planning/plan_from_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/base/text.h"
#include "ps/base/time.h"
#include "ps/proto/job/launcher_name.h"
#include "run/directory/control.h"
#include "run/directory/files.h"
#include "run/directory/head_file.h"
#include "run/planning/planning_files.h"

namespace ps::run {
namespace {

/// `limit` of the whole run less what it has used up. Errors: nothing is left.
Result<double> LeftOf(double limit, double used, const std::string& what) {
  if (used < limit) {
    return limit - used;
  }
  return Status::InvalidArgument(fmt::format(
      "nothing is left of {}: the run has used up {:.4g} of {:.4g}; say with --within and --budget "
      "what it may still take",
      what,
      used,
      limit));
}

/// Held instances that the catalog's quota does not allow are there all the same.
std::vector<std::string> RaisedQuotas(
    const proto::Catalog& catalog, const std::vector<provisioner::TypeCount>& held) {
  std::vector<std::string> quotas;
  for (const provisioner::TypeCount& count : held) {
    const proto::InstanceType* const type = catalog.Find(count.instance_type);
    if (type != nullptr && type->quota < count.count) {
      quotas.push_back(fmt::format("{}={}", count.instance_type, count.count));
    }
  }
  return quotas;
}

Status FillGoal(
    const RunFacts& facts,
    const proto::JobConfig& config,
    const proto::Catalog& catalog,
    PlanCommand* filled) {
  const proto::GoalConfig& goal = config.goal;
  const double loss = goal.loss > 0 ? goal.loss : config.run.stop_at_loss;
  if (filled->common.loss == 0) {
    filled->common.loss = loss;
  }
  if (filled->common.loss == 0) {
    return Status::InvalidArgument(
        "the job has no goal.loss and no run.stop_at_loss: say with --loss where it is to get");
  }
  const double within_s = goal.within_s > 0 ? goal.within_s : config.run.seconds_max;
  if (!filled->has_within && within_s > 0) {
    PS_ASSIGN(const double left_s, LeftOf(within_s, facts.seconds, "the time, in seconds"));
    filled->within = fmt::format("{:.3f}", left_s);
    filled->has_within = true;
  }
  if (!filled->has_budget && goal.budget_usd > 0) {
    const RunServers servers = ServersOf(catalog, config);
    const double usd_per_hour =
        UsdPerHour(catalog, facts.done_by, servers, servers.HostsOf(facts.server_hosts));
    const double used = facts.usd > 0 ? facts.usd : usd_per_hour * facts.seconds / 3600;
    PS_ASSIGN(filled->budget_usd, LeftOf(goal.budget_usd, used, "the budget, in USD"));
    filled->has_budget = true;
  }
  return Status::Ok();
}

}  // namespace

Result<proto::JobConfig> ConfigOfRun(const RunPaths& run) {
  PS_ASSIGN(const std::string text, ReadFile(run.config()));
  return proto::ParsePrintedJobConfig(text);
}

Result<PlanCommand> FillFromFacts(
    const PlanCommand& command, const RunFacts& facts, const proto::JobConfig& config) {
  PlanCommand filled = command;
  filled.detect_s = config.fleet.max_detect_s;
  filled.common.launcher = proto::LauncherName(config.launch.launcher);
  // It keeps its exchange.
  filled.common.local_steps = facts.scheme.local_steps;
  filled.common.push = facts.scheme.push;
  filled.common.pull = facts.scheme.pull;
  filled.common.workers_listed = facts.workers_listed;
  const bool has_goal = config.goal.loss > 0;
  if (filled.common.profile_path == kDefaultProfile && has_goal) {
    filled.common.profile_path = config.goal.profile;
  }
  if (filled.common.catalog_path.empty() && has_goal) {
    filled.common.catalog_path = config.goal.catalog;
  }
  PS_ASSIGN(const proto::Catalog catalog, LoadCatalog(filled.common.catalog_path));
  PS_TRY(FillGoal(facts, config, catalog, &filled));
  if (facts.loss == 0) {
    return Status::InvalidArgument("the run has no loss yet: ask again when it has made steps");
  }
  if (!filled.has_from_loss) {
    filled.from_loss = facts.loss;
    filled.has_from_loss = true;
  }
  if (!filled.has_steps_done && facts.steps >= 1) {
    filled.steps_done = facts.steps;
    filled.has_steps_done = true;
  }
  if (filled.done_by.empty()) {
    filled.done_by = FleetFlags(facts.done_by);
  }
  if (filled.held.empty()) {
    filled.held = FleetFlags(facts.held_by_age);
    const std::vector<std::string> quotas = RaisedQuotas(catalog, facts.held);
    filled.quotas.insert(filled.quotas.end(), quotas.begin(), quotas.end());
  }
  if (!filled.has_takeover && !filled.held.empty() && config.goal.takeover_s > 0) {
    filled.takeover = fmt::format("{:.3f}", config.goal.takeover_s);
    filled.has_takeover = true;
  }
  if (const RunServers servers = ServersOf(catalog, config);
      filled.servers.empty() && servers.type != nullptr) {
    filled.servers = {
        fmt::format("{}={}", servers.type->name, servers.HostsOf(facts.server_hosts))};
    filled.servers_run = true;
    filled.common.notes.push_back(servers.Note());
  }
  return filled;
}

Result<PlanCommand> FillFromRun(const PlanCommand& command, const RunPaths& run) {
  PS_ASSIGN(const proto::JobConfig config, ConfigOfRun(run));
  if (!FileLock::IsHeld(run.lock())) {
    PS_ASSIGN(const std::string summary, ReadFile(run.summary_json()));
    PS_ASSIGN(RunFacts facts, FactsOfEnded(summary, run.summary_json(), config));
    if (const auto head = ReadHeadFile(run); head.ok() && *head) {
      facts.usd += (*head)->usd;  // which the run's own summary does not have
    }
    return FillFromFacts(command, facts, config);
  }
  PS_ASSIGN(const proto::JobStatus status, FetchStatus(run));
  PS_ASSIGN(PlanCommand filled, FillFromFacts(command, FactsOf(status, config), config));
  filled.measured = MeasuredSteps(status, config);
  return filled;
}

}  // namespace ps::run
