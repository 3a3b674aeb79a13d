#include "psctl/view/capacity_view.h"

#include <utility>
#include <vector>

#include "provisioner/report/plan_report.h"
#include "ps/base/text.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

/// Which fleet a row of RenderCapacity is of.
std::string CapacityText(const proto::PlanCapacity& some, const PlanViewOptions& options) {
  const std::string fleet =
      provisioner::FleetText(some.workers, options.names_minibatches, options.zoned);
  const std::string further = some.spare + (some.zone.empty() ? "" : " in " + some.zone);
  if (some.change == "added") {
    return "with " + std::to_string(some.spares) + " " + further + " more";
  }
  if (some.change == "swapped") {
    return "with " + std::to_string(some.spares) + " " + further + " for " +
           std::to_string(some.taken) + " " + some.taken_of;
  }
  if (some.change == "stands_in") {
    return "with " + further + " for what lacks";
  }
  return (some.change.empty() ? "the plan, " : "chosen without traces, ") + fleet;
}

}  // namespace

std::string RenderCapacity(const proto::Plan& plan, const PlanViewOptions& options) {
  run::Table chances(
      {{"by the spot machines that could be had", run::Align::kLeft},
       {"in goal"},
       {"gets there"},
       {"revoked", run::Align::kRight, 1},
       {"time"},
       {"USD"}});
  for (const proto::PlanCapacity& some : plan.capacity) {
    chances.AddRow(
        {CapacityText(some, options),
         FormatPercent(some.in_goal, 0),
         FormatPercent(some.reached, 0),
         FormatFixed(some.revoked, 1),
         some.seconds > 0 ? FormatDuration(some.seconds) : "-",
         FormatUsd(some.usd)});
  }
  const std::vector<proto::PlanCapacityPoint>& points = plan.capacity.front().points;
  if (points.empty()) {
    return chances.Render(options.width_max);
  }
  // A row for each type and zone, a column for each moment after the first, when all start.
  std::vector<run::Column> columns = {{"working, in the mean, after", run::Align::kLeft}};
  std::vector<std::vector<std::string>> rows;
  for (const proto::PlanCapacityPoint& point : points) {
    if (point.at_s == 0) {
      rows.push_back({point.instance_type + (point.zone.empty() ? "" : " in " + point.zone)});
      continue;
    }
    if (rows.size() == 1) {
      const int drop_order = columns.size() % 2 == 1 ? 1 : 0;
      columns.push_back({FormatDuration(point.at_s), run::Align::kRight, drop_order});
    }
    rows.back().push_back(FormatFixed(point.working, 2));
  }
  const size_t width = columns.size();
  run::Table fleet(std::move(columns));
  for (std::vector<std::string>& row : rows) {
    row.resize(width, "-");
    fleet.AddRow(std::move(row));
  }
  return chances.Render(options.width_max) + "\n" + fleet.Render(options.width_max);
}

}  // namespace ps::psctl
