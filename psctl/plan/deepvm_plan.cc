#include "psctl/plan/deepvm_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "provisioner/planner/plan_setup.h"
#include "provisioner/strategies/deepvm.h"
#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "ps/proto/files/catalog.h"
#include "run/planning/plan_arguments.h"
#include "run/planning/planning_files.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

using provisioner::DeepVmArchitecture;
using provisioner::DeepVmChoice;
using provisioner::DeepVmProblem;
using provisioner::DeepVmTrainer;

struct DeepVmInput {
  DeepVmProblem problem;
  std::vector<std::string> left_out;  // why types do not train, a line each
};

Status CheckFlags(const run::PlanCommand& command) {
  if (!(command.usd_per_hour > 0 && std::isfinite(command.usd_per_hour))) {
    return Status::InvalidArgument(
        "--strategy deepvm wants --price-per-hour, USD above 0, as in --price-per-hour 3");
  }

  const struct {
    const char* flag;
    bool is_given;
  } others[] = {
      {"--loss", command.common.loss != 0},
      {"--within", command.has_within},
      {"--budget", command.has_budget},
      {"--market", !command.common.market.empty()},
      {"--local-steps", command.common.local_steps != 0},
      {"--local-steps-max", command.local_steps_max != 0},
      {"--push", !command.common.push.empty()},
      {"--pull", !command.common.pull.empty()},
      {"--push-bytes-factor", command.common.push_factor != 0},
      {"--unseen", command.common.has_unseen},
      {"--servers", !command.servers.empty()},
      {"--quota-on-demand", !command.on_demand_quotas.empty()},
      {"--capacity", !command.capacities.empty()},
      {"--quota-vcpus", !command.vcpu_quotas.empty()},
      {"--objective", command.objective != "cost"},
      {"--lifetimes", !command.lifetimes.empty()},
      {"--start-up", !command.start_up.empty()},
      {"--ignore-revocations", command.ignores_revocations},
      {"--held", !command.held.empty()},
      {"--run", !command.run.empty()},
      {"--plot", !command.plot_path.empty()},
      {"--output", !command.output.empty()},
      {"JOB.json", !command.common.job_path.empty()}};

  for (const auto& other : others) {
    if (other.is_given) {
      return Status::InvalidArgument(fmt::format(
          "--strategy deepvm does not support {}: it chooses by the price of an hour alone; leave "
          "it out, or take the strategy exact",
          other.flag));
    }
  }
  return Status::Ok();
}

/// Empty: it trains. Else which field is not there.
std::string WhyNotTrainer(const proto::InstanceType& type) {
  if (type.spot.empty()) {
    return type.name + ": spot, a price";
  }
  if (type.devices != 1) {
    return fmt::format("{}: devices, which is {}, and figures are of 1", type.name, type.devices);
  }
  if (provisioner::PublishedTrainerOf(type.device) == nullptr) {
    return fmt::format(
        "{}: device, which is {}, and figures are of M60, T4, A10G", type.name, type.device);
  }
  return "";
}

DeepVmTrainer TrainerOf(const proto::InstanceType& type, int count_max) {
  DeepVmTrainer trainer = *provisioner::PublishedTrainerOf(type.device);
  trainer.name = type.name;
  trainer.on_demand_usd_per_hour = type.on_demand_usd_per_hour;
  trainer.spot_usd_per_hour =
      std::ranges::min(type.spot, {}, &proto::SpotPrice::usd_per_hour).usd_per_hour;
  trainer.gbit_per_s = type.network_gbit_per_s;
  trainer.count_max = count_max;
  return trainer;
}

Result<DeepVmInput> InputOf(const run::PlanCommand& command, const proto::Catalog& catalog) {
  PS_ASSIGN(const std::vector<std::string> types, run::ParseTypes("--types", command.types));
  PS_ASSIGN(const std::vector<std::string> without, run::ParseTypes("--without", command.without));
  PS_ASSIGN(const auto quotas, run::ParseTypeCounts("--quota", command.quotas));
  for (const auto* const names : {&types, &without}) {
    for (const std::string& name : *names) {
      if (catalog.Find(name) == nullptr) {
        return Status::InvalidArgument(fmt::format("the catalog has no type {}", Printable(name)));
      }
    }
  }
  DeepVmInput input;
  input.problem.usd_per_hour_max = command.usd_per_hour;
  for (const proto::InstanceType& type : catalog.types) {
    const auto quota = std::ranges::find(quotas, type.name, &provisioner::TypeCount::instance_type);
    const int count_max = quota == quotas.end() ? type.quota : quota->count;
    if (std::ranges::count(without, type.name) > 0) {
      continue;
    }
    if (type.device == "cpu") {
      input.problem.remotes.push_back(
          {type.name,
           type.on_demand_usd_per_hour,
           type.network_gbit_per_s,
           type.memory_gib,
           count_max});
      continue;
    }
    if (!types.empty() && std::ranges::count(types, type.name) == 0) {
      continue;
    }
    if (std::string why = WhyNotTrainer(type); !why.empty()) {
      input.left_out.push_back(std::move(why));
    } else {
      input.problem.trainers.push_back(TrainerOf(type, count_max));
    }
  }
  if (input.problem.trainers.empty()) {
    return Status::InvalidArgument(fmt::format(
        "the strategy deepvm has figures for no type of the catalog; what is missing: {}",
        input.left_out.empty() ? "a type with an accelerator" : Join(input.left_out)));
  }
  return input;
}

std::string ArchitectureText(const DeepVmChoice& choice) {
  return choice.architecture == DeepVmArchitecture::kTiering ? "tiering" : "single anchor";
}

std::string RenderText(const DeepVmInput& input, const std::vector<DeepVmChoice>& best) {
  const DeepVmProblem& problem = input.problem;
  run::Table table(
      {{"", run::Align::kRight},
       {"architecture", run::Align::kLeft},
       {"nodes", run::Align::kLeft},
       {"checkpoints on", run::Align::kLeft},
       {"USD/h"},
       {"score"},
       {"speed"}});
  for (size_t i = 0; i < best.size(); ++i) {
    const DeepVmChoice& choice = best[i];
    const std::string& type = problem.trainers[choice.trainer].name;
    const bool has_remotes = choice.architecture == DeepVmArchitecture::kTiering;
    table.AddRow(
        {std::to_string(i + 1),
         ArchitectureText(choice),
         has_remotes ? fmt::format("{} x {} spot", choice.nodes, type)
                     : fmt::format("{} x {} spot", choice.nodes - 1, type),
         has_remotes ? fmt::format("{} x {}", choice.remotes, problem.remotes[choice.remote].name)
                     : fmt::format("1 x {} on demand, which trains", type),
         fmt::format("{:.4f}", choice.usd_per_hour),
         fmt::format("{:.3f}", choice.score / 1e6),
         fmt::format("{:.0f}", provisioner::SpeedOf(problem, choice))});
  }
  std::string text = table.Render();
  text +=
      "score: 1e6 x operations for a dollar x nodes x scaling; speed: operations x nodes x "
      "scaling, relative\n"
      "note: as published, it knows no revocations, starts or down-time; --strategy exact counts "
      "them by every --objective\n"
      "note: it knows no job, so whether one fits the memory of these types is not looked at\n";
  if (const auto fastest = provisioner::FastestType(problem);
      fastest && provisioner::SpeedOf(problem, *fastest) >
                     provisioner::SpeedOf(problem, best.front()) * (1 + 1e-9)) {
    text += fmt::format(
        "note: {} x {} is faster, speed {:.0f} for {:.4f} USD/h: the score is not speed\n",
        fastest->nodes,
        problem.trainers[fastest->trainer].name,
        provisioner::SpeedOf(problem, *fastest),
        fastest->usd_per_hour);
  }
  if (!input.left_out.empty()) {
    text += fmt::format(
        "note: left out, since a field has no figures for it: {} of the catalog; the first: {}\n",
        input.left_out.size() == 1 ? "1 type" : fmt::format("{} types", input.left_out.size()),
        input.left_out.front());
  }
  return text;
}

std::string RenderJson(const DeepVmProblem& problem, const std::vector<DeepVmChoice>& best) {
  JsonWriter json;
  json.BeginObject();
  json.Field("strategy", "deepvm");
  json.Field("usd_per_hour_max", problem.usd_per_hour_max);
  json.BeginList("fleets");
  for (const DeepVmChoice& choice : best) {
    json.BeginObject();
    json.Field("architecture", ArchitectureText(choice));
    json.Field("instance_type", problem.trainers[choice.trainer].name);
    json.Field("nodes", choice.nodes);
    if (choice.architecture == DeepVmArchitecture::kTiering) {
      json.Field("remote_type", problem.remotes[choice.remote].name);
    }
    json.Field("remotes", choice.remotes);
    json.Field("usd_per_hour", choice.usd_per_hour);
    json.Field("score", choice.score);
    json.Field("speed", provisioner::SpeedOf(problem, choice));
    json.EndObject();
  }
  json.EndList();
  json.EndObject();
  return std::move(json).Take();
}

Result<DeepVmInput> Prepare(const run::PlanCommand& command) {
  PS_TRY(CheckFlags(command));
  PS_ASSIGN(const proto::Catalog catalog, run::LoadCatalog(command.common.catalog_path));
  return InputOf(command, catalog);
}

}  // namespace

int RunDeepVmPlan(const run::PlanCommand& command, const run::Console& console) {
  const Result<DeepVmInput> input = Prepare(command);
  if (!input.ok()) {
    return run::Misuse(console, input.status());
  }
  const std::vector<DeepVmChoice> best =
      provisioner::SolveDeepVm(input->problem, provisioner::DeepVmTies::kCheaper);
  if (best.empty()) {
    const auto cheapest =
        std::ranges::min(input->problem.trainers, {}, &DeepVmTrainer::spot_usd_per_hour);
    return run::Fail(
        console,
        Status::NotFound(fmt::format(
            "no fleet costs at most {:g} USD an hour; the cheapest node is {} at {:g} as spot, and "
            "it needs a remote node or an anchor beside it: raise --price-per-hour",
            command.usd_per_hour,
            cheapest.name,
            cheapest.spot_usd_per_hour)));
  }
  console.out(command.common.is_json ? RenderJson(input->problem, best) : RenderText(*input, best));
  return run::kExitOk;
}

}  // namespace ps::psctl
