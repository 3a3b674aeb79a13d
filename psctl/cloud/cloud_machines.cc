#include "psctl/cloud/cloud_machines.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "provisioner/rental/rent_settings.h"
#include "provisioner/rental/rental_book.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "ps/json/json_writer.h"
#include "run/directory/head_file.h"
#include "run/directory/rental_name.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

using provisioner::Machine;
using provisioner::Provider;

std::string TagOf(const Machine& machine, std::string_view tag) {
  const auto it = machine.tags.find(std::string(tag));
  return it == machine.tags.end() ? "" : it->second;
}

std::string_view StateText(provisioner::MachineState state) {
  switch (state) {
    case provisioner::MachineState::kStarting:
      return "starting";
    case provisioner::MachineState::kRunning:
      return "running";
    case provisioner::MachineState::kEnding:
      return "ending";
    case provisioner::MachineState::kGone:
      break;
  }
  return "gone";
}

/// By which the machines of the runs that live here are known.
std::set<std::string> LivingRuns(
    const std::string& name, const run::RunRegistry& registry, Status* unknown) {
  std::set<std::string> living;
  const auto add = [&](const run::RunPaths& paths) {
    Result<std::string> known = run::RentalRunName(paths);
    if (known.ok()) {
      living.insert(std::move(known).value());
    } else {
      *unknown = known.status();
    }
  };
  for (const run::RunningJob& job : registry.Find()) {
    add(job.paths);
  }
  for (const run::RunPaths& paths : registry.All()) {
    if (name.empty() && run::IsElsewhere(paths)) {
      add(paths);
    }
  }
  return living;
}

/// What machines carry of the run that the command names: its folder here, or what psctl cloud list
/// shows.
Result<std::string> TagOfRun(const std::string& name, const run::RunRegistry& registry) {
  const Result<run::RunPaths> paths = registry.Resolve(name);
  return paths.ok() ? run::RentalRunName(*paths) : Result<std::string>(name);
}

}  // namespace

Status StatusOf(const provisioner::CallEnd& end) {
  return end.ok() ? Status::Ok()
                  : Status::Unavailable(
                        end.message.empty() ? std::string(provisioner::CallFaultName(end.fault))
                                            : end.message);
}

Result<FoundMachines> FindMachines(
    const std::string& name, const run::RunRegistry& registry, Provider* provider) {
  std::map<std::string, std::string> tags = {provisioner::OursTag()};
  if (!name.empty()) {
    PS_ASSIGN(tags[std::string(provisioner::kRunTag)], TagOfRun(name, registry));
  }
  const provisioner::ListReply list = provider->List(tags);
  PS_TRY(StatusOf(list.end));
  FoundMachines found;
  const std::set<std::string> living = LivingRuns(name, registry, &found.unknown);
  std::vector<provisioner::Pool> pools;
  std::vector<CloudRow>& rows = found.rows;
  const int64_t now_us = SystemTime().UnixMicros();
  for (const Machine& machine : list.machines) {
    if (machine.state == provisioner::MachineState::kGone) {
      continue;
    }
    CloudRow row;
    row.machine = machine;
    row.run = TagOf(machine, provisioner::kRunTag);
    row.owner = TagOf(machine, provisioner::kOwnerTag);
    row.is_owned = living.contains(row.run);
    row.is_kept = name.empty() && machine.tags.contains(std::string(provisioner::kHeadTag));
    row.hours =
        machine.started_us == 0 ? 0 : static_cast<double>(now_us - machine.started_us) / 3.6e9;
    pools.push_back(machine.pool);
    rows.push_back(std::move(row));
  }
  // Without prices the machines are shown all the same.
  for (const provisioner::PoolPrice& price : provider->Prices(pools, now_us).prices) {
    for (CloudRow& row : rows) {
      if (row.machine.pool == price.pool) {
        row.usd_per_hour = price.usd_per_hour;
      }
    }
  }
  std::ranges::sort(rows, [](const CloudRow& a, const CloudRow& b) { return a.hours > b.hours; });
  return found;
}

std::string PlaceText(const proto::JobConfig& config) {
  const proto::RentConfig& rent = config.launch.rent;
  return config.launch.launcher == proto::LauncherKind::kGce ? "project " + rent.project
                                                             : "region " + rent.region;
}

Result<std::string> OtherRunsText(
    const std::string& name, const proto::JobConfig& config, Provider* provider) {
  const provisioner::ListReply list = provider->List({provisioner::OursTag()});
  PS_TRY(StatusOf(list.end));
  std::set<std::string> runs;
  for (const Machine& machine : list.machines) {
    if (machine.state != provisioner::MachineState::kGone) {
      runs.insert(Printable(TagOf(machine, provisioner::kRunTag)));
    }
  }
  return fmt::format(
      "no machine of run {} in {}; {}\n",
      Printable(name),
      PlaceText(config),
      runs.empty() ? "there is none of any run" : "there are machines of " + Join(runs));
}

std::string RenderMachines(
    const std::vector<CloudRow>& rows, const proto::JobConfig& config, size_t width) {
  run::Table table(
      {{"run", run::Align::kLeft},
       {"machine", run::Align::kLeft},
       {"pool", run::Align::kLeft, 1},
       {"address", run::Align::kLeft, 3},
       {"state", run::Align::kLeft},
       {"hours"},
       {"USD/h", run::Align::kRight, 2},
       {"owner", run::Align::kLeft}},
      64);
  double rate = 0;
  for (const CloudRow& row : rows) {
    rate += row.usd_per_hour;
    table.AddRow(
        {Printable(row.run),
         row.machine.id,
         PoolText(row.machine.pool),
         row.machine.address.empty() ? row.machine.private_address : row.machine.address,
         std::string(StateText(row.machine.state)),
         fmt::format("{:.2f}", row.hours),
         row.usd_per_hour > 0 ? FormatUsd(row.usd_per_hour) : "-",
         row.is_owned                            ? "runs here"
         : row.owner == provisioner::OwnerName() ? "no run here"
                                                 : "psctl of " + Printable(row.owner)});
  }
  return table.Render(width) + fmt::format(
                                   "{} in {}, {} USD an hour\n",
                                   Plural(rows.size(), "machine"),
                                   PlaceText(config),
                                   FormatUsd(rate));
}

std::string JsonOf(const std::vector<CloudRow>& rows) {
  JsonWriter json;
  json.BeginObject();
  json.BeginList("machines");
  for (const CloudRow& row : rows) {
    json.BeginObject();
    json.Field("run", row.run);
    json.Field("machine", row.machine.id);
    json.Field("type", row.machine.pool.type);
    json.Field("zone", row.machine.pool.zone);
    json.Field("is_spot", row.machine.pool.is_spot);
    json.Field("address", row.machine.address);
    json.Field("state", StateText(row.machine.state));
    json.Field("hours", row.hours);
    json.Field("usd_per_hour", row.usd_per_hour);
    json.Field("owner", row.owner);
    json.Field("runs_here", row.is_owned);
    json.EndObject();
  }
  json.EndList();
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace ps::psctl
