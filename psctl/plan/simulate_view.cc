#include "psctl/plan/simulate_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "provisioner/simulator/spot_bound.h"
#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "psctl/view/line_plot.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

using provisioner::SimulationResult;

double MeanOf(const PolicyRuns& policy, double (*value)(const SimulationResult&)) {
  double sum = 0;
  for (const SimulationResult& run : policy.runs) {
    sum += value(run);
  }
  return sum / static_cast<double>(policy.runs.size());
}

std::string Hours(double node_s) {
  return fmt::format("{:.1f}", node_s / 3600);
}

uint64_t CountReached(const provisioner::SimulatedJob& job, const PolicyRuns& policy) {
  return static_cast<uint64_t>(std::ranges::count_if(policy.runs, [&](const auto& run) {
    return run.is_reached && (job.deadline_s == 0 || run.seconds <= job.deadline_s);
  }));
}

/// "Policies on p3: 20 workers of resnet110".
std::string TitleOf(const SimulateCommand& command, const Judgement& judgement) {
  const std::string& job = command.job_path.empty() ? command.profile_path : command.job_path;
  return Clip(
      fmt::format(
          "Policies on {}: {} of {}{}",
          StemOf(command.trace_path),
          Plural(judgement.job.workers_max(), "worker"),
          StemOf(job),
          command.seeds > 1 ? fmt::format(", seed 1 of {}", command.seeds) : ""),
      kTitleWidth);
}

bool HasPrice(const Judgement& judgement) {
  return judgement.job.spot_usd_per_hour > 0 || !judgement.job.spot_prices.empty();
}

}  // namespace

std::string RenderJudgement(const SimulateCommand& command, const Judgement& judgement) {
  std::vector<run::Column> columns = {
      {"policy", run::Align::kLeft},
      {"time"},
      {"samples"},
      {"of ideal"},
      {"USD"},
      {"working, h"},
      {"idle, h"},
      {"lost, h"},
      {"revoked"},
      {"plans"}};
  if (command.egress_usd_per_gb > 0) {
    columns.push_back({"egress, USD"});
  }
  if (command.launch_failures > 0) {
    columns.push_back({"failed"});
  }
  if (judgement.job.samples_wanted > 0) {
    columns.push_back({"goal", run::Align::kLeft});
  }
  run::Table table(std::move(columns));
  for (const PolicyRuns& policy : judgement.policies) {
    const auto mean = [&](double (*value)(const SimulationResult&)) {
      return MeanOf(policy, value);
    };
    const double ideal = mean([](const auto& run) { return run.samples_ideal; });
    const double samples = mean([](const auto& run) { return run.samples; });
    std::vector<std::string> cells = {
        policy.name,
        FormatDuration(mean([](const auto& run) { return run.seconds; })),
        FormatCount(static_cast<uint64_t>(std::llround(samples))),
        ideal > 0 ? FormatPercent(samples / ideal) : "-",
        HasPrice(judgement) ? FormatUsd(mean([](const auto& run) { return run.usd; })) : "-",
        Hours(mean([](const auto& run) { return run.working_node_s; })),
        Hours(mean([](const auto& run) { return run.idle_node_s; })),
        fmt::format("{:.2f}", mean([](const auto& run) { return run.lost_node_s; }) / 3600),
        fmt::format(
            "{:.0f}", mean([](const auto& run) { return static_cast<double>(run.revocations); })),
        fmt::format(
            "{:.0f}", mean([](const auto& run) { return static_cast<double>(run.plans); }))};
    if (command.egress_usd_per_gb > 0) {
      cells.push_back(FormatUsd(mean([](const auto& run) { return run.egress_usd; })));
    }
    if (command.launch_failures > 0) {
      cells.push_back(fmt::format(
          "{:.0f}", mean([](const auto& run) { return static_cast<double>(run.failed_starts); })));
    }
    if (judgement.job.samples_wanted > 0) {
      const uint64_t reached = CountReached(judgement.job, policy);
      cells.push_back(
          reached == command.seeds ? "met" : fmt::format("met {} of {}", reached, command.seeds));
    }
    table.AddRow(std::move(cells));
  }
  return fmt::format(
             "{}: {}, up to {}; {} of {}/s alone; {}; {}\n",
             Printable(command.trace_path),
             FormatDuration(judgement.trace_s),
             Plural(judgement.most, "machine"),
             Plural(judgement.job.workers_max(), "worker"),
             FormatRate(judgement.job.samples_per_s[1]) + " samples",
             Plural(command.seeds, "seed"),
             command.engine == "cores"
                 ? fmt::format("production cores, {}", proto::ModeName(judgement.job.mode))
                 : "by rates") +
         table.Render() +
         "ideal: all machines that could be had, without start-up or loss; h: machine-hours; idle: "
         "paid for, not working\n" +
         (HasPrice(judgement) ? judgement.job.servers_usd_per_hour > 0
                                    ? "USD: of the workers and their servers\n"
                                    : "USD: of the workers alone\n"
                              : "") +
         (std::ranges::count(judgement.policies, provisioner::kSpotBound, &PolicyRuns::name) > 0
              ? "oracle: a bound, by rates: on spot machines nobody can train more, or be done "
                "sooner\n"
              : "") +
         (judgement.start_note.empty() ? "" : judgement.start_note + "\n");
}

std::string JsonOfJudgement(const SimulateCommand& command, const Judgement& judgement) {
  JsonWriter json;
  json.BeginObject();
  json.Field("engine", command.engine);
  json.Field("mode", proto::ModeName(judgement.job.mode));
  json.Field("trace_s", judgement.trace_s);
  json.Field("machines_max", judgement.most);
  json.Field("workers_max", judgement.job.workers_max());
  json.Field("samples_per_s_alone", judgement.job.samples_per_s[1]);
  json.Field("start_s", judgement.job.start_s);
  json.Field("seeds", command.seeds);
  json.BeginList("policies");
  for (const PolicyRuns& policy : judgement.policies) {
    const auto field = [&](std::string_view name, double (*value)(const SimulationResult&)) {
      json.Field(name, MeanOf(policy, value));
    };
    json.BeginObject();
    json.Field("name", policy.name);
    field("seconds", [](const auto& run) { return run.seconds; });
    field("samples", [](const auto& run) { return run.samples; });
    field("samples_ideal", [](const auto& run) { return run.samples_ideal; });
    if (HasPrice(judgement)) {
      field("usd", [](const auto& run) { return run.usd; });
    }
    field("egress_usd", [](const auto& run) { return run.egress_usd; });
    field("working_node_s", [](const auto& run) { return run.working_node_s; });
    field("idle_node_s", [](const auto& run) { return run.idle_node_s; });
    field("lost_node_s", [](const auto& run) { return run.lost_node_s; });
    field("revocations", [](const auto& run) { return static_cast<double>(run.revocations); });
    field("starts", [](const auto& run) { return static_cast<double>(run.starts); });
    field("failed_starts", [](const auto& run) { return static_cast<double>(run.failed_starts); });
    field("plans", [](const auto& run) { return static_cast<double>(run.plans); });
    if (judgement.job.samples_wanted > 0) {
      json.Field("goals_met", CountReached(judgement.job, policy));
    }
    json.EndObject();
  }
  json.EndList();
  json.EndObject();
  return std::move(json).Take();
}

std::string PlotJudgement(const SimulateCommand& command, const Judgement& judgement) {
  PlotPanel workers = {.title = "machines: available (grey), workers that take part", .lines = {}};
  PlotPanel samples = {.title = "samples behind the ideal", .lines = {}};
  double end_s = 0;
  char style = 'b';
  PlotLine available = {.style = 'a', .points = {}, .is_background = true};
  for (const PolicyRuns& policy : judgement.policies) {
    const SimulationResult& run = policy.runs.front();
    PlotLine line = {.style = style, .points = {}};
    PlotLine short_of = {.style = style, .points = {}};
    uint32_t before = 0;
    uint32_t there = 0;
    const bool is_first = available.points.empty();
    for (const auto& point : run.points) {
      line.points.emplace_back(point.at_s, before);
      line.points.emplace_back(point.at_s, point.working);
      before = point.working;
      short_of.points.emplace_back(point.at_s, point.samples_ideal - point.samples);
      if (is_first) {
        available.points.emplace_back(point.at_s, there);
        available.points.emplace_back(point.at_s, point.available);
        there = point.available;
      }
    }
    end_s = std::max(end_s, run.seconds);
    workers.lines.push_back(std::move(line));
    samples.lines.push_back(std::move(short_of));
    samples.legend.emplace_back(style, policy.name);
    style = style == 'h' ? 'b' : static_cast<char>(style + 1);
  }
  workers.lines.insert(workers.lines.begin(), std::move(available));
  return DrawPlot(
      TitleOf(command, judgement), {workers, samples}, {.end = end_s, .seconds = end_s});
}

}  // namespace ps::psctl
