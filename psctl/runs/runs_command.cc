#include "psctl/runs/runs_command.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"
#include "psctl/cli/arguments.h"
#include "psctl/runs/runs_prune.h"
#include "run/directory/control.h"
#include "run/directory/head_file.h"
#include "run/planning/plan_arguments.h"
#include "run/report/metric_text.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

/// "2026-01-31 12:00:00" of "name-20260131-120000[-n]".
std::string StartOf(const std::string& directory_name) {
  const size_t name_size = run::JobNameOf(directory_name).size();
  const std::string stamp = directory_name.substr(name_size);
  constexpr size_t kStampSize = sizeof("-20260131-120000") - 1;
  if (stamp.size() < kStampSize) {
    return "";
  }
  return stamp.substr(1, 4) + "-" + stamp.substr(5, 2) + "-" + stamp.substr(7, 2) + " " +
         stamp.substr(10, 2) + ":" + stamp.substr(12, 2) + ":" + stamp.substr(14, 2);
}

RunRow RowOf(const run::RunPaths& run) {
  RunRow row;
  row.name = run::BaseName(run.root);
  row.started = StartOf(row.name);
  row.paths = run;
  return row;
}

/// Nothing when it is not a number.
std::optional<double> NumberAt(const JsonValue& object, std::string_view name) {
  const JsonValue* const value = object.Find(name);
  if (value == nullptr || value->kind != JsonValue::Kind::kNumber) {
    return std::nullopt;
  }
  return std::strtod(value->text.c_str(), nullptr);
}

std::optional<uint64_t> CountAt(const JsonValue& object, std::string_view name) {
  const std::optional<double> number = NumberAt(object, name);
  return number && *number >= 0 && *number < 1e18 ? std::optional(static_cast<uint64_t>(*number))
                                                  : std::nullopt;
}

std::string CountText(const std::optional<uint64_t>& count) {
  return count ? FormatCount(*count) : "-";
}

}  // namespace

RunRow EndedRun(const run::RunPaths& run) {
  RunRow row = RowOf(run);
  row.state = "killed";
  const Result<std::string> text = ReadFile(run.summary_json());
  if (!text.ok()) {
    return row;
  }
  const Result<JsonValue> summary = ParseJson(*text, run.summary_json());
  if (!summary.ok() || summary->kind != JsonValue::Kind::kObject) {
    row.state = "unreadable";
    return row;
  }
  const JsonValue* const state = summary->Find("state");
  row.state = state == nullptr ? "unreadable" : state->text;
  const JsonValue* const problem = summary->Find("model_problem");
  row.model_problem = problem == nullptr ? "" : problem->text;
  row.samples_counted = CountAt(*summary, "samples_counted");
  row.samples_total = CountAt(*summary, "samples_total");
  if (const JsonValue* const metric = summary->Find("metric"); metric != nullptr) {
    row.metric = run::MetricOfName(metric->text);
  }
  row.accuracy = NumberAt(*summary, run::TestMetricName(row.metric));
  row.seconds = NumberAt(*summary, "elapsed_s");
  row.usd = NumberAt(*summary, "usd_spent");
  if (const auto traffic = NumberAt(*summary, "traffic_usd"); traffic && *traffic > 0) {
    row.usd = row.usd.value_or(0) + *traffic;
  }
  if (const auto head = run::ReadHeadFile(run); head.ok() && head->has_value()) {
    row.usd = row.usd.value_or(0) + (*head)->usd;
  }
  if (CountAt(*summary, "steps_counted").value_or(0) > 0) {
    row.loss = NumberAt(*summary, "train_loss");
  }
  return row;
}

RunRow LookAtRun(const run::RunPaths& run) {
  const Result<std::optional<run::HeadFile>> head = run::ReadHeadFile(run);
  if (!head.ok() || (head->has_value() && !(*head)->is_given_back)) {
    RunRow row = RowOf(run);
    row.is_running = true;  // for all that can be known here
    row.state = !head.ok()             ? "head.json is damaged"
                : (*head)->is_given_up ? "its head goes back"
                : (*head)->is_begun    ? "at " + (*head)->login
                                       : "rents its head";
    return row;
  }
  if (!run::FileLock::IsHeld(run.lock())) {
    return EndedRun(run);
  }
  RunRow row = RowOf(run);
  row.is_running = true;
  row.state = "does not answer";
  if (const Result<proto::JobStatus> status = run::FetchStatus(run); status.ok()) {
    row.state = proto::StateName(status->state);
    row.samples_counted = status->samples_counted;
    row.samples_total = status->samples_total;
    if (status->steps_counted > 0) {
      row.loss = status->train_loss;
      row.seconds = status->elapsed_s;
    }
    if (!status->evaluations.empty()) {
      row.accuracy = status->evaluations.back().accuracy;
      row.metric = status->metric;
    }
    row.usd = status->usd_spent + status->traffic.usd;
  } else if (!run::FileLock::IsHeld(run.lock())) {
    return EndedRun(run);  // just now
  }
  return row;
}

/// The column is that of accuracy; r2 says so.
std::string AccuracyText(const RunRow& row) {
  return !row.accuracy ? "-"
                       : fmt::format(
                             "{}{}",
                             proto::IsShare(row.metric) ? "" : "r2 ",
                             run::FormatMetric(row.metric, *row.accuracy, 2));
}

std::string RenderRuns(const std::vector<RunRow>& rows, size_t width_max) {
  run::Table table(
      {{"run", run::Align::kLeft},
       {"state", run::Align::kLeft},
       {"started (UTC)", run::Align::kLeft, 2},
       {"samples", run::Align::kRight, 3},
       {"of", run::Align::kRight, 4},
       {"loss", run::Align::kRight},
       {"accuracy", run::Align::kRight, 6},
       {"time", run::Align::kRight, 5},
       {"USD", run::Align::kRight, 7, "-"},
       {"directory", run::Align::kLeft, 1}},
      /*cell_width_max=*/120);
  for (const RunRow& row : rows) {
    table.AddRow(
        {Printable(row.name),
         Printable(row.state),
         row.started.empty() ? "-" : row.started,
         CountText(row.samples_counted),
         CountText(row.samples_total),
         row.loss && std::isfinite(*row.loss) ? run::FormatLoss(*row.loss) : "-",
         AccuracyText(row),
         row.seconds ? FormatDuration(*row.seconds) : "-",
         row.usd && *row.usd > 0 ? FormatUsd(*row.usd) : "-",
         Printable(row.paths.root)});
  }
  return table.Render(width_max);
}

std::string RunsToJson(const std::vector<RunRow>& rows) {
  JsonWriter json(JsonForm::kOneLine);
  const auto add_count = [&json](std::string_view name, const std::optional<uint64_t>& count) {
    if (count) {
      json.Field(name, *count);
    } else {
      json.Field(name, nullptr);
    }
  };
  const auto add_number = [&json](std::string_view name, const std::optional<double>& number) {
    if (number) {
      json.Field(name, *number);
    } else {
      json.Field(name, nullptr);
    }
  };
  json.BeginList();
  for (const RunRow& row : rows) {
    json.BeginObject();
    json.Field("run", row.name);
    json.Field("job", run::JobNameOf(row.name));
    json.Field("state", row.state);
    json.Field("is_running", row.is_running);
    json.Field("started", row.started);
    add_count("samples_counted", row.samples_counted);
    add_count("samples_total", row.samples_total);
    add_number("train_loss", row.loss);
    json.Field("metric", proto::MetricName(row.metric));
    add_number(run::TestMetricName(row.metric), row.accuracy);
    add_number("elapsed_s", row.seconds);
    add_number("usd_spent", row.usd);
    json.Field("directory", row.paths.root);
    json.EndObject();
  }
  json.EndList();
  return std::move(json).Take() + "\n";
}

namespace {

/// Lists runs, or removes the directories of ended ones. Returns the exit code.
int RunRuns(
    const RunsCommand& command, const run::Console& console, const run::RunRegistry& registry) {
  const std::vector<run::RunPaths> runs = registry.All();
  if (command.only_names) {
    for (const run::RunPaths& run : runs) {
      console.out(run::BaseName(run.root) + "\n");
    }
    return run::kExitOk;
  }
  std::vector<RunRow> rows;
  rows.reserve(runs.size());
  for (const run::RunPaths& run : runs) {
    rows.push_back(LookAtRun(run));
  }
  if (command.prunes) {
    return PruneRuns(rows, command, console, registry);
  }
  if (command.is_json) {
    console.out(RunsToJson(rows));
  } else if (rows.empty()) {
    console.err("there are no runs in " + registry.ScannedText() + "\n");
  } else {
    console.out(RenderRuns(rows, console.out_width));
  }
  return run::kExitOk;
}

void AddArguments(RunsCommand* command, Arguments* arguments) {
  arguments->Add(
      "--prune", &command->prunes, "Remove what ended runs left here, after saying what");
  arguments
      ->AddText(
          "--older-than",
          [command](const std::string& text) -> Status {
            PS_ASSIGN(command->older_than_s, run::ParseDuration("--older-than", text));
            return Status::Ok();
          },
          "Of those that ended so long ago alone, as in 7d")
      .Value("TIME")
      .Needs("--prune");
  arguments->Add("--models", &command->removes_models, "Remove their models, too").Needs("--prune");
  arguments->Add("--dry-run", &command->only_looks, "Say what would be removed").Needs("--prune");
  arguments->Add("--yes", &command->is_confirmed, "Do not ask").Needs("--prune");
  arguments->Add("--json", &command->is_json, "Print JSON").Excludes("--prune");
  arguments->Add("--names", &command->only_names, "Print the directories' names alone")
      .Excludes("--prune")
      .Excludes("--json");
}

int Run(const RunsCommand& command, const Session& session) {
  return RunRuns(command, session.console, session.registry);
}

}  // namespace

constinit const Command kRuns = {
    .path = "runs",
    .group = Group::kKeep,
    .help = "List the runs of this folder, and those that go on elsewhere",
    .examples =
        {{{"psctl runs", "all runs of this folder"},
          {"psctl runs --prune --older-than 7d --dry-run", "what would be removed"}}},
    .declare = Declare<RunsCommand, AddArguments, Run>};

}  // namespace ps::psctl
