#include "run/planning/start_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "ps/base/text.h"
#include "run/planning/planning.h"

namespace ps::run {
namespace {

/// Further apart than this, one of two start-up times is not that of the other's machine.
constexpr double kSameStart = 2;

/// Whether all machines of a plan have to be asked for first. What a change of a run's own fleet
/// costs is its take-over.
bool IsNewFleet(const provisioner::PlanSetup& setup) {
  return setup.held.empty() && !setup.servers_run && !setup.all_run;
}

/// Types of the plan's machines, each once.
std::vector<std::string> TypesOf(const proto::Plan& plan) {
  std::vector<std::string> types;
  const auto see = [&](const std::string& name) {
    if (std::ranges::count(types, name) == 0) {
      types.push_back(name);
    }
  };
  for (const proto::PlanWorkers& workers : plan.workers) {
    see(workers.instance_type);
  }
  see(plan.servers.instance_type);
  return types;
}

}  // namespace

std::vector<MeasuredStart> UseMeasuredStarts(
    const proto::JobProfile& profile, const std::string& launcher, proto::Catalog* catalog) {
  std::vector<MeasuredStart> measured;
  const std::vector<proto::StartSample> starts = provisioner::StartsFor(profile.starts, launcher);
  for (const auto& [name, times] : provisioner::StartTimesByType(starts)) {
    const auto type = std::ranges::find(catalog->types, name, &proto::InstanceType::name);
    if (type == catalog->types.end()) {
      continue;
    }
    measured.push_back({name, times, type->start_up_s});
    if (!(type->start_up_s > 0)) {
      type->start_up_s = times.median_s;
    }
  }
  return measured;
}

std::string MeasuredStartNote(const MeasuredStart& start) {
  const std::string type = Printable(start.instance_type);
  const std::string median = FormatDuration(start.times.median_s);
  const auto count = static_cast<uint64_t>(start.times.count);
  if (start.catalog_s == 0) {
    return fmt::format("start-up of {}: {}, measured {}", type, median, Plural(count, "time"));
  }
  const bool is_alike = start.catalog_s <= kSameStart * start.times.median_s &&
                        start.times.median_s <= kSameStart * start.catalog_s;
  return is_alike ? ""
                  : fmt::format(
                        "start-up of {}: {} by the catalog, but {} in the median of {}",
                        type,
                        FormatDuration(start.catalog_s),
                        median,
                        Plural(count, "start"));
}

void CountStart(Planning* planning) {
  if (!IsNewFleet(planning->input.setup)) {
    return;
  }
  provisioner::PlanSetup& setup = planning->input.setup;
  if (planning->outlook.start_up_s) {
    setup.goal.takeover_s = *planning->outlook.start_up_s;
  } else {
    setup.counts_start_up = true;
  }
}

void AddStartNote(const Planning& planning, proto::Plan* plan) {
  if (!IsNewFleet(planning.input.setup) || planning.outlook.start_up_s ||
      plan->seconds.value == 0) {
    return;
  }
  bool is_some_known = false;
  std::vector<std::string> unknown;
  for (const std::string& name : TypesOf(*plan)) {
    const proto::InstanceType* const type = planning.catalog.Find(name);
    const bool is_known = type != nullptr && type->start_up_s > 0;
    is_some_known = is_some_known || is_known;
    if (type != nullptr && !is_known) {
      unknown.push_back(name);
    }
  }
  if (unknown.empty()) {
    return;
  }
  plan->notes.push_back(
      is_some_known
          ? fmt::format(
                "the start of {} is not counted, since the catalog has no start_up_s of it; "
                "--start-up counts one for all",
                Join(unknown))
          : fmt::format(
                "time and cost begin when the machines are up, since the catalog has no start_up_s "
                "of {}; --start-up counts their boot, image and data",
                Join(unknown)));
}

void AddMeasuredStarts(const Planning& planning, proto::Plan* plan) {
  const bool is_counted = IsNewFleet(planning.input.setup) && plan->seconds.value > 0;
  // Without a time there may still be revocations, after which machines are new.
  if (planning.outlook.start_up_s || !(is_counted || plan->revocations.start_up_s > 0)) {
    return;
  }
  const std::vector<std::string> types = TypesOf(*plan);
  for (const MeasuredStart& start : planning.starts) {
    std::string note = MeasuredStartNote(start);
    if (!note.empty() && std::ranges::count(types, start.instance_type) > 0) {
      plan->notes.push_back(std::move(note));
    }
  }
}

double StartSecondsOf(
    const Planning& planning, const std::string& type, std::optional<double> given) {
  const proto::InstanceType* const known = planning.catalog.Find(type);
  const bool is_known = known != nullptr && known->start_up_s > 0;
  return given.value_or(is_known ? known->start_up_s : provisioner::kStartUpS);
}

std::string StartNoteOf(const Planning& planning, const std::string& type) {
  const auto start = std::ranges::find(planning.starts, type, &MeasuredStart::instance_type);
  return start == planning.starts.end() ? "" : MeasuredStartNote(*start);
}

std::vector<std::string> StartNotes(const Planning& planning) {
  std::vector<std::string> notes;
  const provisioner::PlanProblem& problem = planning.problem;
  if (planning.outlook.start_up_s || !problem.goal.counts_start_up) {
    return notes;
  }
  for (const MeasuredStart& start : planning.starts) {
    const bool is_offered = std::ranges::any_of(problem.offers, [&](const auto& offer) {
      const auto k = static_cast<size_t>(offer.worker_class);
      return problem.speed->classes()[k].name == start.instance_type;
    });
    std::string note = MeasuredStartNote(start);
    if (is_offered && !note.empty()) {
      notes.push_back(std::move(note));
    }
  }
  return notes;
}

}  // namespace ps::run
