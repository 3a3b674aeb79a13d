#include "psctl/runs/scale_preview.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "provisioner/report/plan_report.h"
#include "ps/base/text.h"
#include "ps/coordinator/fleet/wanted.h"
#include "run/planning/plan_from_run.h"
#include "run/planning/planning.h"
#include "run/planning/run_facts.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

/// A fleet and what is predicted of it.
struct FleetPreview {
  std::vector<provisioner::TypeCount> workers;
  int servers = 0;
  proto::Plan plan;
  double usd_per_hour = 0;
  bool has_time = false;
};

/// A group for each type, as many as are wanted of it.
void GroupsByType(
    const proto::JobStatus& status,
    const proto::JobConfig& config,
    std::vector<proto::WorkerGroup>* groups,
    std::vector<uint32_t>* wanted) {
  for (const proto::FleetRow& row : status.fleet) {
    proto::WorkerGroup group;
    group.type = row.type;
    group.count = 0;
    for (const proto::WorkerGroup& some : config.workers) {
      group.count += some.type == row.type ? some.count : 0;
    }
    groups->push_back(std::move(group));
    wanted->push_back(row.wanted);
  }
}

Result<FleetPreview> PredictFleet(
    const run::Planning& planning,
    const std::vector<provisioner::TypeCount>& workers,
    const run::RunServers& kept,
    int servers) {
  const provisioner::PlanProblem& problem = planning.problem;
  FleetPreview preview;
  preview.workers = workers;
  preview.servers = servers;
  PS_ASSIGN(const std::vector<int> counts, run::CountsByOffer(problem, workers));
  if (provisioner::WorkersOf(counts) == 0) {
    return preview;  // nobody does nothing
  }
  const int hosts = kept.HostsOf(servers);
  provisioner::FleetChoice choice;
  if (problem.loss != nullptr && problem.goal.loss > 0) {
    choice = provisioner::FleetJudge(problem).Choose(counts, 0, hosts);
    preview.has_time = provisioner::WhyNoTime(problem, choice).empty();
  } else {
    std::vector<int> class_counts(problem.speed->classes().size(), 0);
    for (size_t i = 0; i < counts.size(); ++i) {
      class_counts[static_cast<size_t>(problem.offers[i].worker_class)] += counts[i];
    }
    choice.counts = counts;
    choice.server_hosts = hosts;
    choice.speed =
        problem.speed->Predict(class_counts, {hosts, problem.servers.front().link_bytes_per_s});
  }
  preview.plan = provisioner::PlanOf(problem, planning.profile, choice, "");
  preview.usd_per_hour = run::UsdPerHour(planning.catalog, workers, kept, hosts);
  return preview;
}

std::string SpreadText(const proto::Estimate& estimate, std::string (*format)(double)) {
  return format(estimate.value) + " (" + format(estimate.low) + " to " + format(estimate.high) +
         ")";
}

/// Samples/s, of which a slow job has less than one.
std::string SamplesText(double value) {
  return FormatRate(std::max(value, 0.0));
}

void AddFleetRow(
    const std::string& when, const FleetPreview& preview, bool has_goal, run::Table* table) {
  const proto::Plan& plan = preview.plan;
  const bool is_empty = plan.workers.empty();
  std::vector<std::string> row = {
      when,
      run::FleetText(preview.workers),
      fmt::format("{}", preview.servers),
      is_empty ? "0" : SpreadText(plan.samples_per_s, SamplesText),
      FormatUsd(preview.usd_per_hour),
      is_empty ? "nobody works" : plan.bottleneck};
  if (has_goal) {
    row.push_back(preview.has_time ? SpreadText(plan.seconds, FormatDuration) : "never");
    row.push_back(preview.has_time ? FormatUsd(plan.usd.value) : "-");
  }
  table->AddRow(std::move(row));
}

/// The planning of the run: of its goal where it has one that is not met.
Status PreparePreview(
    const ScaleCommand& command,
    const proto::JobStatus& status,
    const proto::JobConfig& config,
    const run::RunFacts& facts,
    run::Planning* planning) {
  run::PlanningCommand common;
  const bool has_goal = config.goal.loss > 0;
  common.profile_path = !command.profile_path.empty() ? command.profile_path
                        : has_goal                    ? config.goal.profile
                                                      : run::kDefaultProfile;
  common.catalog_path =
      !command.catalog_path.empty() || !has_goal ? command.catalog_path : config.goal.catalog;
  common.market = "both";
  common.workers_listed = facts.workers_listed;
  common.local_steps = facts.scheme.local_steps;
  common.push = facts.scheme.push;
  common.pull = facts.scheme.pull;
  common.confidence = run::ConfidenceOf(config.goal);
  const double loss = has_goal ? config.goal.loss : config.run.stop_at_loss;
  if (loss > 0 && facts.loss > loss) {
    common.loss = loss;
    planning->input.setup.goal.loss_now = facts.loss;
    planning->input.setup.goal.steps_done = facts.steps;
    planning->done_by = facts.done_by;
  }
  planning->input.setup.goal.seconds_max = INFINITY;
  planning->input.setup.goal.usd_max = INFINITY;
  planning->input.setup.all_run = true;
  planning->measured = run::MeasuredSteps(status, config);
  PS_ASSIGN(const proto::Catalog catalog, run::LoadCatalog(common.catalog_path));
  if (const run::RunServers kept = run::ServersOf(catalog, config); kept.type != nullptr) {
    const int hosts = kept.HostsOf(facts.server_hosts);
    planning->input.setup.servers = {{kept.type->name, hosts, hosts}};
    planning->input.setup.servers_run = true;
    common.notes.push_back(kept.Note());
  } else {
    return Status::NotFound("the catalog has no type that may hold parameters (is_server_host)");
  }
  return run::PreparePlanning(common, planning);
}

int WorkersOf(const std::vector<provisioner::TypeCount>& fleet) {
  int workers = 0;
  for (const provisioner::TypeCount& some : fleet) {
    workers += some.count;
  }
  return workers;
}

bool HasShares(const ScaleCommand& command) {
  return std::ranges::any_of(command.changes, [](const auto& c) { return !c.shares.empty(); });
}

int ServersAfter(const ScaleCommand& command, int servers) {
  for (const proto::ScaleChange& change : command.changes) {
    if (change.is_servers) {
      servers = (change.is_relative ? servers : 0) + change.count;
    }
  }
  return servers;
}

}  // namespace

Result<std::string> PreviewScale(
    const ScaleCommand& command,
    const proto::JobStatus& status,
    const proto::JobConfig& config,
    const std::string& today,
    size_t width_max) {
  std::vector<proto::WorkerGroup> groups;
  std::vector<uint32_t> wanted;
  GroupsByType(status, config, &groups, &wanted);
  PS_ASSIGN(
      const std::vector<uint32_t> then,
      coordinator::WantedAfter(groups, wanted, command.changes, proto::kSeatsMax));
  run::RunFacts facts = run::FactsOf(status, config);
  run::Planning planning(today);
  if (const Status ready = PreparePreview(command, status, config, facts, &planning); !ready.ok()) {
    return ready.code() != StatusCode::kNotFound
               ? ready
               : Status::NotFound(fmt::format(
                     "nothing can be predicted: {}; the run makes {} samples/s now with {}",
                     ready.message(),
                     SamplesText(facts.samples_per_s),
                     run::FleetText(facts.held)));
  }
  std::vector<provisioner::TypeCount> after;
  for (size_t i = 0; i < groups.size(); ++i) {
    after.push_back({groups[i].type, static_cast<int>(then[i]), 0});
  }
  const run::RunServers kept = run::ServersOf(planning.catalog, config);
  PS_ASSIGN(const FleetPreview now, PredictFleet(planning, facts.held, kept, facts.server_hosts));
  const int servers = ServersAfter(command, facts.server_hosts);
  if (servers < 1) {
    return Status::InvalidArgument(
        fmt::format("that would be {} servers; allowed: 1 or more", servers));
  }
  PS_ASSIGN(const FleetPreview later, PredictFleet(planning, after, kept, servers));
  const bool has_goal = planning.problem.goal.loss > 0 && planning.problem.loss != nullptr;
  std::vector<run::Column> columns = {
      {"", run::Align::kLeft},
      {"workers", run::Align::kLeft},
      {"servers"},
      {"samples/s"},
      {"USD/hour"},
      {"bottleneck", run::Align::kLeft}};
  if (has_goal) {
    columns.push_back({fmt::format("time to loss {:g}", planning.problem.goal.loss)});
    columns.push_back({"USD"});
  }
  run::Table table(std::move(columns));
  AddFleetRow("now", now, has_goal, &table);
  AddFleetRow("then", later, has_goal, &table);
  std::string text = table.Render(width_max);
  text += fmt::format(
      "\nmeasured now: {} samples/s; ranges hold at {:.0f} %, prices are the catalog's lowest\n",
      SamplesText(facts.samples_per_s),
      100 * (2 * planning.problem.goal.confidence - 1));
  for (const std::string& note : planning.notes) {
    text += note + "\n";
  }
  if (const std::string note = run::ListedRateNote(planning, WorkersOf(after)); !note.empty()) {
    text += note + "\n";
  }
  if (HasShares(command)) {
    text += "servers are predicted with even shares\n";
  }
  return text + "nothing was changed\n";
}

}  // namespace ps::psctl
