// `psctl compare`: runs beside each other, as a table and as one plot.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "psctl/cli/arguments.h"
#include "psctl/runs/chosen_run.h"
#include "psctl/runs/runs_command.h"
#include "psctl/view/line_plot.h"
#include "run/directory/files.h"
#include "run/page/history.h"

namespace ps::psctl {
namespace {

constexpr size_t kComparedMax = 8;  // colours of a plot

struct CompareCommand {
  std::vector<std::string> runs;
  std::string plot;
  bool is_json = false;
};

/// A run's course in one figure, by its seconds from the first line of its metrics.
PlotLine LineOf(const run::History& history, double run::HistoryPoint::*value, size_t index) {
  PlotLine line;
  line.style = static_cast<char>('a' + index);
  for (const run::HistoryPoint& point : history.points()) {
    if (std::isfinite(point.*value)) {
      line.points.emplace_back(point.unix_s - history.points().front().unix_s, point.*value);
    }
  }
  return line;
}

Result<std::string> DrawRuns(const std::vector<RunRow>& rows) {
  std::vector<PlotPanel> panels = {
      {.title = "Training loss", .lines = {}},
      {.title = "Test accuracy", .lines = {}},
      {.title = "Samples a second", .lines = {}},
      {.title = "Workers", .lines = {}},
      {.title = "Cost, USD", .lines = {}}};
  double run::HistoryPoint::*const values[] = {
      &run::HistoryPoint::train_loss,
      &run::HistoryPoint::test_accuracy,
      &run::HistoryPoint::samples_per_s,
      &run::HistoryPoint::workers,
      &run::HistoryPoint::usd_spent};
  double end = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    PS_ASSIGN(const run::History history, run::ReadHistory(rows[i].paths.metrics()));
    panels.front().legend.emplace_back(static_cast<char>('a' + i), Printable(rows[i].name));
    if (history.points().empty()) {
      continue;
    }
    end = std::max(end, history.points().back().unix_s - history.points().front().unix_s);
    for (size_t panel = 0; panel < panels.size(); ++panel) {
      panels[panel].lines.push_back(LineOf(history, values[panel], i));
    }
  }
  if (end <= 0) {
    return Status::NotFound("the runs have left no metrics to plot");
  }
  return DrawPlot("Runs from their begin", panels, {.end = end, .seconds = end});
}

int Compare(const CompareCommand& command, const Session& session) {
  const run::Console& console = session.console;
  std::vector<RunRow> rows;
  for (const std::string& name : command.runs) {
    const Result<run::RunPaths> run = ChooseAnyRun(name, session.registry);
    if (!run.ok()) {
      return run::Fail(console, run.status());
    }
    rows.push_back(LookAtRun(*run));
  }
  console.out(command.is_json ? RunsToJson(rows) : RenderRuns(rows, console.out_width));
  if (command.plot.empty()) {
    return run::kExitOk;
  }
  const Result<std::string> plot = DrawRuns(rows);
  const Status written =
      plot.ok() ? WriteFileAtomically(command.plot, *plot) : Status(plot.status());
  if (!written.ok()) {
    return run::Fail(console, written);
  }
  console.err("the plot is in " + command.plot + "\n");
  return run::kExitOk;
}

void AddArguments(CompareCommand* command, Arguments* arguments) {
  arguments->Add("RUN", &command->runs, "Names or directories of runs, or names of jobs")
      .Required();
  arguments->Add("--plot", &command->plot, "Draw loss, accuracy, speed, workers and cost as SVG")
      .Value("FILE.svg");
  arguments->Add("--json", &command->is_json, "Print JSON");
  arguments->Check([command] {
    return command->runs.size() <= kComparedMax
               ? Status::Ok()
               : Status::InvalidArgument(fmt::format(
                     "compare takes {} runs at most, got {}", kComparedMax, command->runs.size()));
  });
}

}  // namespace

constinit const Command kCompare = {
    .path = "compare",
    .group = Group::kKeep,
    .help = "Show runs beside each other: how far they came, in what time, at what cost",
    .examples =
        {{{"psctl compare runs/mnist-20240131-120000 runs/mnist-20240131-130000", "two runs"},
          {"psctl compare mnist cifar --plot runs.svg", "and their course, as a picture"}}},
    .declare = Declare<CompareCommand, AddArguments, Compare>};

}  // namespace ps::psctl
