#include "psctl/view/status_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "ps/base/text.h"
#include "psctl/view/why_view.h"
#include "run/report/exchange.h"
#include "run/report/metric_text.h"
#include "run/report/run_events.h"
#include "run/report/summary.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

/// "fast 4 of 4, slow 0 of 1": who takes part of those who are wanted.
std::string FleetText(const std::vector<proto::FleetRow>& fleet) {
  std::string text;
  for (const proto::FleetRow& row : fleet) {
    text += fmt::format(
        "{}{} {} of {}", text.empty() ? "" : ", ", Printable(row.type), row.present, row.wanted);
  }
  return text;
}

/// The share of a worker's time in which it computes: little behind a thin link.
std::string ComputingText(const proto::WorkerStats& stats) {
  run::ExchangeTotals totals;
  totals.Add(stats);
  return stats.compute_s > 0 ? FormatPercent(totals.computing(), 0) : "-";
}

/// What error feedback holds back, as a share of a gradient.
std::string HeldBackText(const proto::WorkerStats& stats) {
  return stats.times.held_back > 0 ? FormatPercent(stats.times.held_back, 0) : "-";
}

constexpr double kMiB = 1024.0 * 1024.0;
constexpr size_t kGoneRowsMax = 8;
constexpr size_t kWaitsMax = 8;
constexpr size_t kPinnedShown = 8;  // of the model's parts that were moved by hand

std::string Mebibytes(uint64_t bytes) {
  return FormatFixed(static_cast<double>(bytes) / kMiB, 1);
}

std::string ModeLine(const proto::JobStatus& status) {
  const proto::ModesStatus& modes = status.modes;
  return fmt::format(
      "{}{}{}{}, membership generation {}",
      proto::ModeText(modes.in_force),
      status.mode == proto::Mode::kBsp ? ", round " + FormatCount(status.round) : "",
      modes.wanted == modes.in_force
          ? ""
          : ", " + proto::ModeText(modes.wanted) + " when the steps in hand are done",
      modes.switches.empty() ? ""
                             : ", since " + FormatCount(modes.switches.back().samples) + " samples",
      status.generation.value);
}

std::string NumberOrDash(uint64_t n) {
  return n == 0 ? "-" : std::to_string(n);
}

std::string SamplesOfTotal(uint64_t counted, uint64_t total) {
  const double fraction =
      total == 0 ? 0 : static_cast<double>(counted) / static_cast<double>(total);
  return FormatCount(counted) + " of " + FormatCount(total) + " samples (" +
         FormatPercent(fraction) + ")";
}

/// "7.linear.weight on server 1, 3.linear.weight:2 on server 0": what psctl move has moved.
std::string PinnedText(const proto::ServersStatus& servers) {
  std::string text;
  for (size_t i = 0; i < std::min(servers.pinned.size(), kPinnedShown); ++i) {
    const proto::PinnedPart& part = servers.pinned[i];
    text += fmt::format(
        "{}{}{} on server {}",
        i == 0 ? "" : ", ",
        Printable(part.tensor),
        part.chunk < 0 ? "" : fmt::format(":{}", part.chunk),
        part.server);
  }
  return text + (servers.pinned.size() > kPinnedShown
                     ? fmt::format(", ...: {} chunks in all", servers.chunks_pinned)
                     : "");
}

std::string RenderHead(const proto::JobStatus& status) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::string state(proto::StateName(status.state));
  if (!status.detail.empty()) {
    state += ": " + Printable(status.detail);
  }
  pairs.emplace_back("job", Printable(status.name));
  pairs.emplace_back("state", state);
  pairs.emplace_back("mode", ModeLine(status));
  if (!run::IsPlain(status.steps)) {
    pairs.emplace_back("exchange", run::StepsText(status.steps));
  }
  pairs.emplace_back(
      "progress",
      fmt::format(
          "epoch {} of {}, {}",
          run::EpochNow(status),
          status.epochs,
          SamplesOfTotal(status.samples_counted, status.samples_total)));
  pairs.emplace_back(
      "rate",
      FormatRate(status.samples_per_s) + " samples/s, " + FormatDuration(status.elapsed_s) +
          " so far" + (status.eta_s < 0 ? "" : ", " + FormatDuration(status.eta_s) + " left"));
  pairs.emplace_back(
      "training",
      status.steps_counted == 0
          ? "no step yet"
          : "loss " + run::FormatLoss(status.train_loss) +
                (proto::IsShare(status.metric) ? ", " : "") + run::TrainMetricText(status));
  if (!status.figures.empty()) {
    pairs.emplace_back("figures", run::FormatFigures(status));
  }
  if (!status.evaluations.empty()) {
    const proto::EvaluationRow& last = status.evaluations.back();
    pairs.emplace_back(
        std::string(run::EvaluatedOn(status)),
        fmt::format(
            "{} {}, loss {} after epoch {}{}",
            run::MetricTitle(status.metric),
            run::FormatMetric(status.metric, last.accuracy, 2),
            run::FormatLoss(last.loss),
            last.epoch,
            status.validation_samples > 0 ? ", " + Plural(last.samples, "sample") : ""));
  } else if (status.validation_samples > 0) {
    pairs.emplace_back(
        "validation", "no epoch yet, " + Plural(status.validation_samples, "sample"));
  }
  pairs.emplace_back(
      "steps",
      FormatCount(status.steps_counted) + " counted, " + FormatCount(status.steps_lost) +
          " lost (" + FormatCount(status.steps_partial) + " of them partial)");
  if (status.steps_counted > 0) {
    pairs.emplace_back("moved", run::ExchangeText(run::ExchangeOf(status)));
  }
  if (std::string undone = run::UndoneText(status.checkpoints); !undone.empty()) {
    pairs.emplace_back("undone", std::move(undone));
  }
  if (!status.fleet.empty()) {
    pairs.emplace_back("fleet", FleetText(status.fleet));
  }
  if (std::string waiting = run::WaitingText(status); !waiting.empty()) {
    pairs.emplace_back("waiting", std::move(waiting));
  }
  const proto::ServersStatus& servers = status.servers;
  if (servers.wanted != servers.count || servers.is_moving || !servers.shares.empty()) {
    pairs.emplace_back(
        "servers",
        fmt::format(
            "{} wanted{}, {} take part{}",
            Plural(servers.wanted, "server"),
            servers.shares.empty() ? "" : " with shares " + proto::SharesText(servers.shares),
            servers.count,
            servers.is_moving ? "; chunks move" : ""));
  }
  if (servers.chunks_pinned > 0) {
    pairs.emplace_back("pinned", PinnedText(servers));
  }
  pairs.emplace_back(
      "revocations",
      FormatCount(status.revocations_noticed) + " with notice, " +
          FormatCount(status.revocations_unnoticed) + " without; " + Plural(status.joins, "join"));
  if (const proto::CheckpointStatus& checkpoints = status.checkpoints; checkpoints.is_on) {
    const std::string newest = checkpoints.newest == 0
                                   ? "none yet"
                                   : fmt::format(
                                         "the newest is {}, {} old, {} written",
                                         checkpoints.newest,
                                         FormatDuration(checkpoints.age_s),
                                         FormatBytes(checkpoints.sizes.written_bytes));
    const std::string failed =
        checkpoints.failed == 0 ? "" : ", " + FormatCount(checkpoints.failed) + " failed";
    pairs.emplace_back("checkpoints", newest + failed);
  }
  if (const proto::CopyStatus& copies = status.copies; !copies.target.empty()) {
    pairs.emplace_back(
        "copies",
        (copies.newest == 0 ? "none yet" : fmt::format("the newest is {}", copies.newest)) +
            ", in " + Printable(copies.target) +
            (copies.failed == 0 ? "" : ", " + FormatCount(copies.failed) + " failed") +
            (copies.trouble.empty() ? "" : ": " + Printable(copies.trouble)));
  }
  if (status.journal.restarts > 0 || !status.journal.trouble.empty()) {
    const std::string restarts = "was restarted " + Plural(status.journal.restarts, "time");
    const std::string trouble =
        status.journal.trouble.empty()
            ? ""
            : "; could not be started again now: " + Printable(status.journal.trouble);
    pairs.emplace_back("coordinator", restarts + trouble);
  }
  if (status.samples_rejected > 0) {
    pairs.emplace_back(
        "rejected", Plural(status.samples_rejected, "sample") + ", gradient not finite");
  }
  if (const uint64_t overflowed = run::ChunksOverflowed(status); overflowed > 0) {
    pairs.emplace_back(
        "overflowed", Plural(overflowed, "update") + " of a chunk, in part left out: not finite");
  }
  if (status.usd_spent > 0 || status.usd_per_hour > 0) {
    pairs.emplace_back(
        "cost",
        FormatUsd(status.usd_spent) + " USD so far, " + FormatUsd(status.usd_per_hour) +
            " USD an hour");
  }
  if (status.traffic.bytes > 0) {
    pairs.emplace_back(
        "traffic",
        run::TrafficText(status) + " so far, " + FormatUsd(status.traffic.usd_per_hour) +
            " USD an hour");
  }
  pairs.emplace_back("directory", Printable(status.run_directory));
  return run::RenderPairs(pairs);
}

std::string RenderWorkers(const proto::JobStatus& status, size_t width_max) {
  if (status.workers.empty()) {
    return "no workers yet\n";
  }
  run::Table table(
      {{"worker"},
       {"state", run::Align::kLeft},
       {"samples/s"},
       {"computing", run::Align::kRight, 2},
       {"held back", run::Align::kRight, 7, "-"},
       {"clock", run::Align::kRight, 3},
       {"lease", run::Align::kRight, 6},
       {"silent s", run::Align::kRight, 1},
       {"counted", run::Align::kRight, 2},
       {"minibatch", run::Align::kRight, 5},
       {"device", run::Align::kLeft, 3, "cpu"},
       {"slowdown", run::Align::kRight, 4},
       {"pid", run::Align::kRight, 7},
       {"host", run::Align::kLeft, 8}});
  const run::ShownWorkers shown = run::ChooseWorkers(status, kGoneRowsMax);
  for (const proto::WorkerRow& row : shown.rows) {
    const bool is_gone = row.is_gone();
    table.AddRow(
        {std::to_string(row.worker.value),
         std::string(proto::StateName(row.state)),
         is_gone ? "-" : FormatRate(row.stats.samples_per_s),
         ComputingText(row.stats),
         HeldBackText(row.stats),
         std::to_string(row.clock),
         is_gone ? "-" : NumberOrDash(row.lease.value),
         is_gone ? "-" : FormatFixed(row.silent_s, 1),
         FormatCount(row.samples_counted),
         std::to_string(row.minibatch),
         Printable(row.device),
         FormatFixed(row.slowdown, 1),
         is_gone ? "-" : NumberOrDash(static_cast<uint64_t>(row.pid)),
         Printable(row.host)});
  }
  return table.Render(width_max) +
         (shown.hidden == 0 ? "" : "and " + FormatCount(shown.hidden) + " more that are gone\n") +
         run::ElsewhereText(shown);
}

std::string RenderShards(const proto::JobStatus& status, size_t width_max) {
  if (status.shards.empty()) {
    return "no servers yet\n";
  }
  run::Table table(
      {{"shard"},
       {"state", run::Align::kLeft},
       {"chunks", run::Align::kRight, 3},
       {"MiB"},
       {"steps"},
       {"stale p50", run::Align::kRight, 1},
       {"stale max", run::Align::kRight, 1},
       {"in MiB", run::Align::kRight, 4},
       {"out MiB", run::Align::kRight, 4},
       {"lr", run::Align::kRight, 2},
       {"fenced", run::Align::kRight, 6},
       {"repeated", run::Align::kRight, 6},
       {"rejected", run::Align::kRight, 6},
       {"pid", run::Align::kRight, 7},
       {"address", run::Align::kLeft, 5}});
  for (const proto::ShardRow& row : status.shards) {
    const StalenessSummary staleness = SummarizeStaleness(row.stats.staleness_histogram);
    table.AddRow(
        {std::to_string(row.shard.value),
         std::string(proto::StateName(row.state)),
         FormatCount(row.stats.chunk_count),
         Mebibytes(row.stats.parameter_bytes),
         FormatCount(row.stats.steps_applied),
         staleness.count == 0 ? "-" : std::to_string(staleness.median),
         staleness.count == 0
             ? "-"
             : std::to_string(staleness.max) + (staleness.is_open_ended ? "+" : ""),
         Mebibytes(row.stats.bytes_received),
         Mebibytes(row.stats.bytes_sent),
         FormatFixed(row.stats.lr, 5),
         FormatCount(row.stats.pushes_fenced),
         FormatCount(row.stats.chunks_duplicate),
         FormatCount(row.stats.chunks_rejected),
         NumberOrDash(static_cast<uint64_t>(row.pid)),
         Printable(row.address)});
  }
  return table.Render(width_max);
}

std::string RenderLedger(const proto::JobStatus& status, size_t width_max) {
  const std::string metric = fmt::format(
      "{} {}",
      status.validation_samples > 0 ? "validation" : "test",
      run::MetricTitle(status.metric));
  run::Table table({{"epoch"}, {"samples"}, {"counted"}, {"leased"}, {"returned"}, {metric}});
  const size_t of_epochs = status.evaluations.size() - (status.has_last_evaluation ? 1 : 0);
  for (const proto::LedgerRow& row : status.ledger) {
    std::string accuracy = "-";
    for (const proto::EvaluationRow& evaluation : std::span(status.evaluations).first(of_epochs)) {
      if (evaluation.epoch == row.epoch + 1) {
        accuracy = run::FormatMetric(status.metric, evaluation.accuracy, 2);
      }
    }
    table.AddRow(
        {std::to_string(row.epoch + 1),
         FormatCount(row.samples_total),
         FormatCount(row.samples_counted),
         FormatCount(row.samples_leased),
         FormatCount(row.samples_returned),
         accuracy});
  }
  return table.Render(width_max);
}

}  // namespace

StalenessSummary SummarizeStaleness(const std::vector<uint64_t>& histogram) {
  StalenessSummary summary;
  for (size_t lead = 0; lead < histogram.size(); ++lead) {
    summary.count += histogram[lead];
    if (histogram[lead] > 0) {
      summary.max = lead;
    }
  }
  summary.is_open_ended = !histogram.empty() && histogram.back() > 0;
  uint64_t below = 0;
  for (size_t lead = 0; lead < histogram.size(); ++lead) {
    below += histogram[lead];
    if (below * 2 >= summary.count) {
      summary.median = lead;
      break;
    }
  }
  return summary;
}

std::string RenderStatus(const proto::JobStatus& status, size_t width_max) {
  std::string out = RenderHead(status);
  out += "\n" + RenderWorkers(status, width_max);
  out += "\n" + RenderShards(status, width_max);
  if (!status.ledger.empty()) {
    out += "\n" + RenderLedger(status, width_max);
  }
  if (!status.waits.empty()) {
    out += "\n" + RenderWaits(status, kWaitsMax);
  }
  return out;
}

std::string RenderJobList(const std::vector<proto::JobStatus>& jobs, size_t width_max) {
  run::Table table(
      {{"job", run::Align::kLeft},
       {"state", run::Align::kLeft},
       {"done"},
       {"samples/s"},
       {"loss", run::Align::kRight, 3},
       {"workers", run::Align::kRight, 2},
       {"left", run::Align::kRight, 1},
       {"run", run::Align::kLeft}});
  for (const proto::JobStatus& job : jobs) {
    const double fraction = job.samples_total == 0 ? 0
                                                   : static_cast<double>(job.samples_counted) /
                                                         static_cast<double>(job.samples_total);
    const size_t slash = job.run_directory.rfind('/');
    table.AddRow(
        {Printable(job.name),
         std::string(proto::StateName(job.state)),
         FormatPercent(fraction),
         FormatRate(job.samples_per_s),
         job.steps_counted == 0 ? "-" : run::FormatLoss(job.train_loss),
         run::WorkersText(job),
         FormatDuration(job.eta_s),
         Printable(
             slash == std::string::npos ? job.run_directory
                                        : job.run_directory.substr(slash + 1))});
  }
  return table.Render(width_max);
}

}  // namespace ps::psctl
