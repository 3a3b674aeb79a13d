#include "psctl/view/top_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "ps/base/text.h"
#include "ps/base/utf8.h"
#include "psctl/view/status_view.h"
#include "run/directory/event_log.h"
#include "run/report/exchange.h"
#include "run/report/metric_text.h"
#include "run/report/run_events.h"
#include "run/report/summary.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

constexpr double kTopMiB = 1024.0 * 1024.0;
constexpr size_t kSparkWidth = 32;
constexpr size_t kSnapshotEvents = 10;
constexpr size_t kEventsMin = 4;  // lines for them, with their title, where there is little room
constexpr size_t kServersMin = 2;
constexpr size_t kDetailLines = 2;

using Lines = std::vector<std::string>;

Lines SplitLines(const std::string& text) {
  Lines lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string JoinParts(const Lines& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += part.empty() || text.empty() ? part : "   " + part;
  }
  return text;
}

/// At blanks, into lines of `width`; what is left over is in the last one.
Lines Wrapped(std::string_view text, size_t width, size_t lines_max) {
  Lines lines;
  while (!text.empty()) {
    const size_t fits = FrontOfWidth(text, width).size();
    const size_t blank = fits < text.size() ? text.rfind(' ', fits) : std::string_view::npos;
    const bool is_last = blank == std::string_view::npos || lines.size() + 1 == lines_max;
    lines.emplace_back(text.substr(0, is_last ? text.size() : blank));
    text.remove_prefix(is_last ? text.size() : blank + 1);
  }
  return lines;
}

void AddLines(const Lines& more, Lines* lines) {
  lines->insert(lines->end(), more.begin(), more.end());
}

double ShareDone(const proto::JobStatus& status) {
  return status.samples_total == 0 ? 0
                                   : static_cast<double>(status.samples_counted) /
                                         static_cast<double>(status.samples_total);
}

/// "[#####-----]  47.3 %  12.9 s left"
std::string ProgressLine(const proto::JobStatus& status, size_t width) {
  const std::string tail = fmt::format(
                               "  {}  epoch {}/{}",
                               FormatPercent(ShareDone(status)),
                               run::EpochNow(status),
                               status.epochs) +
                           (status.eta_s < 0 || status.state != proto::RunState::kTraining
                                ? ""
                                : "  " + FormatDuration(status.eta_s) + " left");
  if (width < tail.size() + 12) {
    return Clip(tail.substr(2), width);
  }
  const size_t bar = std::min<size_t>(width - tail.size() - 2, 60);
  const auto full = static_cast<size_t>(
      std::lround(std::clamp(ShareDone(status), 0.0, 1.0) * static_cast<double>(bar)));
  return "[" + std::string(full, '#') + std::string(bar - full, '-') + "]" + tail;
}

std::string CostText(const proto::JobStatus& status) {
  const std::string traffic = status.traffic.bytes == 0
                                  ? ""
                                  : fmt::format(
                                        "traffic {} USD, {} USD/h",
                                        FormatUsd(status.traffic.usd),
                                        FormatUsd(status.traffic.usd_per_hour));
  if (status.usd_spent <= 0 && status.usd_per_hour <= 0) {
    return traffic.empty() ? "cost - (no usd_per_hour in the job)" : traffic;
  }
  return fmt::format(
      "cost {} USD, {} USD/h{}{}",
      FormatUsd(status.usd_spent),
      FormatUsd(status.usd_per_hour),
      traffic.empty() ? "" : ", ",
      traffic);
}

Lines Head(const TopSnapshot& snapshot, size_t width) {
  const proto::JobStatus& status = snapshot.status;
  Lines lines;
  lines.push_back(JoinParts(
      {Printable(status.name),
       std::string(proto::StateName(status.state)),
       FormatDuration(status.elapsed_s) + " so far"}));
  AddLines(Wrapped(Printable(status.detail), width, kDetailLines), &lines);
  if (!snapshot.trouble.empty()) {
    lines.push_back(Printable(snapshot.trouble));
  }
  lines.push_back(ProgressLine(status, width));
  const bool has_step = status.steps_counted > 0;
  const bool has_validation = status.validation_samples > 0;
  std::string test =
      has_validation ? FormatCount(status.validation_samples) + " validation samples" : "";
  if (!status.evaluations.empty()) {
    const proto::EvaluationRow& newest = status.evaluations.back();
    test = fmt::format(
        "{} {}{} (epoch {}{})",
        run::EvaluatedOn(status),
        proto::IsShare(status.metric) ? "" : "r2 ",
        run::FormatMetric(status.metric, newest.accuracy, 2),
        newest.epoch,
        has_validation ? ", " + FormatCount(newest.samples) + " samples" : "");
  }
  lines.push_back(JoinParts(
      {"loss " + (has_step ? run::FormatLoss(status.train_loss) : "-"),
       Sparkline(snapshot.losses, std::min(kSparkWidth, width / 4)),
       has_step ? run::TrainMetricText(status) : "",
       test}));
  if (!status.figures.empty()) {
    lines.push_back(run::FormatFigures(status));
  }
  lines.push_back(JoinParts(
      {FormatRate(status.samples_per_s) + " samples/s",
       "workers " + run::WorkersText(status),
       proto::ModeText(status.modes.in_force),
       CostText(status)}));
  if (!run::IsPlain(status.steps)) {
    lines.push_back(run::StepsText(status.steps));
  }
  if (const std::string waiting = run::WaitingText(status); !waiting.empty()) {
    lines.push_back("waiting: " + waiting);
  }
  return lines;
}

/// How many steps a worker is behind the first one, where that is bounded.
std::string StepsText(const proto::JobStatus& status, const proto::WorkerRow& row) {
  if (status.mode != proto::Mode::kSsp) {
    return FormatCount(row.stats.steps);
  }
  if (row.state == proto::WorkerRowState::kJoining) {
    return "-";  // its clock is set when it has joined
  }
  uint64_t first = 0;
  for (const proto::WorkerRow& other : status.workers) {
    first = std::max(first, other.is_gone() ? 0 : other.clock);
  }
  return std::to_string(first - std::min(first, row.clock));
}

std::string PriceText(double usd_per_hour) {
  return usd_per_hour <= 0 ? "-" : FormatUsd(usd_per_hour);
}

Lines Workers(const proto::JobStatus& status, size_t width) {
  const std::vector<proto::WorkerRow> rows = run::ChooseWorkers(status, 0).rows;
  if (rows.empty()) {
    return {status.workers.empty() ? "no workers yet" : "no workers"};
  }
  run::Table table(
      {{"worker"},
       {"state", run::Align::kLeft},
       {"samples/s"},
       {status.mode == proto::Mode::kSsp ? "behind" : "steps", run::Align::kRight, 2},
       {"stale", run::Align::kRight, 3},
       {"held back", run::Align::kRight, 7, "-"},
       {"silent s", run::Align::kRight, 7},
       {"counted", run::Align::kRight, 5},
       {"type", run::Align::kLeft, 4},
       {"USD/h", run::Align::kRight, 1},
       {"device", run::Align::kLeft, 6},
       {"host", run::Align::kLeft, 1}});
  for (const proto::WorkerRow& row : rows) {
    const bool is_there = row.incarnation != Incarnation();
    table.AddRow(
        {std::to_string(row.worker.value),
         std::string(proto::StateName(row.state)),
         is_there ? FormatRate(row.stats.samples_per_s) : "-",
         is_there ? StepsText(status, row) : "-",
         is_there ? FormatFixed(row.staleness, 1) : "-",
         row.stats.times.held_back > 0 ? FormatPercent(row.stats.times.held_back, 0) : "-",
         is_there ? FormatFixed(row.silent_s, 1) : "-",
         FormatCount(row.samples_counted),
         Printable(row.type),
         PriceText(row.usd_per_hour),
         Printable(row.device),
         row.host.empty() ? "-" : Printable(row.host)});
  }
  return SplitLines(table.Render(width));
}

Lines Servers(const proto::JobStatus& status, size_t width) {
  run::Table table(
      {{"shard"},
       {"state", run::Align::kLeft},
       {"in MiB/s"},
       {"out MiB/s"},
       {"stale p50", run::Align::kRight, 3},
       {"stale max", run::Align::kRight, 4},
       {"MiB", run::Align::kRight, 2},
       {"address", run::Align::kLeft, 5}});
  for (const proto::ShardRow& row : status.shards) {
    const StalenessSummary staleness = SummarizeStaleness(row.stats.staleness_histogram);
    const bool is_known = staleness.count > 0;
    table.AddRow(
        {std::to_string(row.shard.value),
         std::string(proto::StateName(row.state)),
         FormatFixed(row.received_bytes_per_s / kTopMiB, 1),
         FormatFixed(row.sent_bytes_per_s / kTopMiB, 1),
         is_known ? std::to_string(staleness.median) : "-",
         is_known ? std::to_string(staleness.max) + (staleness.is_open_ended ? "+" : "") : "-",
         FormatFixed(static_cast<double>(row.stats.parameter_bytes) / kTopMiB, 1),
         Printable(row.address)});
  }
  return SplitLines(table.Render(width));
}

std::string CheckpointText(const proto::CheckpointStatus& status) {
  if (!status.is_on) {
    return "no checkpoints (checkpoint.enabled)";
  }
  std::string text =
      status.newest == 0
          ? "no checkpoint yet"
          : fmt::format("checkpoint {} is {} old", status.newest, FormatDuration(status.age_s));
  text += status.open == 0 ? "" : fmt::format(", {} is being written", status.open);
  return text + (status.failed == 0 ? "" : fmt::format(", {} failed", status.failed));
}

/// The title and so many rows that there are `room` lines at most, the last one of which says how
/// many are left out.
Lines Cut(Lines table, size_t room, std::string_view what) {
  if (table.size() <= room) {
    return table;
  }
  if (room < 2) {
    return {};
  }
  const size_t hidden = table.size() - (room - 1);
  table.resize(room - 1);
  table.push_back(fmt::format("and {} more {}", hidden, what));
  return table;
}

/// The newest ones that fit into `room` lines.
Lines Events(const proto::JobStatus& status, size_t room) {
  Lines lines;
  const size_t count = std::min(room, status.events.size());
  for (size_t i = status.events.size() - count; i < status.events.size(); ++i) {
    lines.push_back(run::RenderEvent(status.events[i]));
  }
  return lines;
}

}  // namespace

std::string Sparkline(const std::vector<double>& values, size_t width) {
  constexpr std::string_view kLevels = "_.:-=+*#%@";
  const size_t count = std::min(values.size(), width);
  const auto begin = values.end() - static_cast<std::ptrdiff_t>(count);
  double least = HUGE_VAL;
  double most = -HUGE_VAL;
  for (auto it = begin; it != values.end(); ++it) {
    least = std::isfinite(*it) ? std::min(least, *it) : least;
    most = std::isfinite(*it) ? std::max(most, *it) : most;
  }
  std::string line;
  for (auto it = begin; it != values.end(); ++it) {
    const double share = most > least ? (*it - least) / (most - least) : 0;
    const auto level = static_cast<size_t>(
        std::isfinite(*it) ? std::lround(share * static_cast<double>(kLevels.size() - 1)) : 0);
    line += std::isfinite(*it) ? kLevels[std::min(level, kLevels.size() - 1)] : '!';
  }
  return line;
}

std::string Coloured(const std::string& line, bool is_first) {
  constexpr std::string_view kGap = "  ";
  size_t begin = line.find_first_not_of(' ');
  if (is_first) {
    begin = line.rfind("   ", line.rfind("   ") - 1);  // name, state and time stand three apart
    begin = begin == std::string::npos ? begin : begin + 3;
  } else {
    const size_t number = begin;
    begin = number == std::string::npos ? number : line.find_first_not_of("0123456789", number);
    if (begin == std::string::npos || begin == number || line.compare(begin, 2, kGap) != 0) {
      return line;  // no row of a table
    }
    begin += kGap.size();
  }
  if (begin == std::string::npos || begin >= line.size()) {
    return line;
  }
  const size_t end = std::min(line.find(kGap, begin), line.size());
  const std::string_view state = std::string_view(line).substr(begin, end - begin);
  const auto is_one_of = [state](std::initializer_list<std::string_view> states) {
    return std::ranges::find(states, state) != states.end();
  };
  const int colour = is_one_of({"computing", "ready", "training", "done"}) ? 32
                     : is_one_of({"lost", "failed", "missing", "silent"})  ? 31
                     : is_one_of(
                           {"waiting",
                            "paused",
                            "draining",
                            "leaving",
                            "starting",
                            "joining",
                            "sits out",
                            "set up",
                            "parked"})
                         ? 33
                         : 0;
  return colour == 0 ? line
                     : fmt::format(
                           "{}\x1b[{}m{}\x1b[39m{}",
                           line.substr(0, begin),
                           colour,
                           state,
                           line.substr(end));
}

std::vector<std::string> RenderTop(const TopSnapshot& snapshot, size_t width, size_t height) {
  const proto::JobStatus& status = snapshot.status;
  Lines lines = Head(snapshot, width);
  Lines workers = Workers(status, width);
  Lines servers = status.shards.empty() ? Lines{"no servers yet"} : Servers(status, width);
  const std::string checkpoints = CheckpointText(status.checkpoints);
  size_t events = kSnapshotEvents;
  if (height > 0) {
    // A blank line above each table and above the events; the line about checkpoints.
    const size_t fixed = lines.size() + 4;
    const size_t room = height - std::min(height, fixed);
    const size_t for_events = std::min({kEventsMin, room / 4, status.events.size()});
    const size_t tables = room - for_events;
    // Where there is room for one table, it is that of the workers.
    const size_t kept = tables < 2 * (kServersMin + 2) ? 0 : kServersMin + 1;
    const size_t for_servers =
        std::min(servers.size(), std::max(kept, tables - std::min(tables, workers.size())));
    servers = Cut(std::move(servers), std::min(for_servers, tables), "shards");
    workers = Cut(std::move(workers), tables - servers.size(), "workers");
    events = room - servers.size() - workers.size();
  }
  lines.emplace_back();
  AddLines(workers, &lines);
  lines.emplace_back();
  AddLines(servers, &lines);
  lines.push_back(checkpoints);
  if (const Lines last = Events(status, events); !last.empty()) {
    lines.emplace_back();
    AddLines(last, &lines);
  }
  for (std::string& line : lines) {
    line = Clip(line, width);
  }
  if (height > 0 && lines.size() > height) {
    lines.resize(height);
  }
  return lines;
}

}  // namespace ps::psctl
