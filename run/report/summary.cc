#include "run/report/summary.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "run/report/console.h"
#include "run/report/exchange.h"
#include "run/report/metric_text.h"
#include "run/report/run_events.h"
#include "run/report/start_view.h"
#include "run/report/tables.h"

namespace ps::run {
namespace {

constexpr size_t kGoneTotalsMax = 16;

struct Totals {
  ExchangeTotals exchange;
  uint64_t retries = 0;
  double samples_per_s = 0;  // over the whole run
};

double RatePerSecond(uint64_t n, double seconds) {
  return seconds > 0 ? static_cast<double>(n) / seconds : 0;
}

Totals TotalsOf(const proto::JobStatus& status) {
  Totals totals;
  totals.exchange = ExchangeOf(status);
  for (const proto::WorkerRow& row : status.workers) {
    totals.retries += row.stats.retries;
  }
  totals.samples_per_s = RatePerSecond(status.samples_counted, status.elapsed_s);
  return totals;
}

/// Over the time in which the worker computed or waited.
double WorkerRate(const proto::WorkerRow& row) {
  return RatePerSecond(row.stats.samples, row.stats.compute_s + row.stats.wait_s);
}

/// What became of a worker: who computed or waited to the end has stayed.
std::string FateOf(const proto::WorkerRow& row) {
  const bool has_stayed = !row.is_gone() && row.incarnation != Incarnation();
  return std::string(has_stayed ? "stayed" : StateName(row.state));
}

std::string HiddenNote(const ShownWorkers& shown) {
  std::string note;
  if (shown.hidden > 0) {
    note += "and " + Plural(shown.hidden, "earlier one") + ", in summary.json\n";
  }
  return note + ElsewhereText(shown);
}

std::string RenderWorkerTotals(const proto::JobStatus& status, size_t width_max) {
  Table table(
      {{"worker"},
       {"state", Align::kLeft},
       {"samples"},
       {"samples/s"},
       {"steps", Align::kRight, 3},
       {"minibatch", Align::kRight, 5},
       {"device", Align::kLeft, 3, "cpu"},
       {"slowdown", Align::kRight, 2},
       {"compute s", Align::kRight, 4},
       {"wait s", Align::kRight, 4},
       {"pushed", Align::kRight, 1},
       {"pulled", Align::kRight, 1},
       {"retries", Align::kRight, 6}});
  const ShownWorkers shown = ChooseWorkers(status, kGoneTotalsMax);
  for (const proto::WorkerRow& row : shown.rows) {
    table.AddRow(
        {std::to_string(row.worker.value),
         Printable(FateOf(row)),
         FormatCount(row.samples_counted),
         FormatRate(WorkerRate(row)),
         FormatCount(row.stats.steps),
         std::to_string(row.minibatch),
         Printable(row.device),
         FormatFixed(row.slowdown, 1),
         FormatFixed(row.stats.compute_s, 1),
         FormatFixed(row.stats.wait_s, 1),
         FormatBytes(row.stats.bytes_pushed),
         FormatBytes(row.stats.bytes_pulled),
         FormatCount(row.stats.retries)});
  }
  return table.Render(width_max) + HiddenNote(shown);
}

void AddWorkers(const proto::JobStatus& status, JsonWriter* json) {
  json->BeginList("workers");
  for (const proto::WorkerRow& row : status.workers) {
    json->BeginObject();
    json->Field("worker", row.worker.value);
    json->Field("incarnation", row.incarnation.value);
    json->Field("state", FateOf(row));
    json->Field("minibatch", row.minibatch);
    json->Field("device", row.device);
    json->Field("slowdown", row.slowdown);
    json->Field("samples_counted", row.samples_counted);
    json->Field("samples_per_s", WorkerRate(row));
    json->Field("steps", row.stats.steps);
    json->Field("compute_s", row.stats.compute_s);
    json->Field("wait_s", row.stats.wait_s);
    json->Field("bytes_pushed", row.stats.bytes_pushed);
    json->Field("bytes_pulled", row.stats.bytes_pulled);
    json->Field("retries", row.stats.retries);
    json->EndObject();
  }
  json->EndList();
  // Samples of workers from before a resume, and of gone workers that are forgotten.
  json->Field("samples_of_other_workers", SamplesElsewhere(status));
}

/// What evaluations have told besides loss and metric.
std::vector<proto::Figure> TestFigures(const proto::JobStatus& status) {
  std::vector<proto::Figure> figures = status.figures;
  std::erase_if(figures, [](const auto& figure) { return !figure.name.starts_with("test_"); });
  return figures;
}

void AddFigures(const proto::JobStatus& status, JsonWriter* json) {
  json->BeginObject("figures");
  for (const proto::Figure& figure : status.figures) {
    json->Field(figure.name, figure.value);
  }
  json->EndObject();
}

void AddEvaluations(const proto::JobStatus& status, JsonWriter* json) {
  json->BeginList("evaluations");
  for (const proto::EvaluationRow& row : status.evaluations) {
    json->BeginObject();
    json->Field("epoch", row.epoch);
    json->Field(proto::MetricName(status.metric), row.accuracy);
    json->Field("loss", row.loss);
    json->Field("samples", row.samples);
    json->Field("at_s", row.at_s);
    json->EndObject();
  }
  json->EndList();
}

/// "3: accuracy 0.931, checkpoint 7; the model that is left is of it".
std::string BestText(const proto::CheckpointStatus& checkpoints) {
  return fmt::format(
      "{}: {} {:.4g}, checkpoint {}{}",
      checkpoints.best_epoch,
      Printable(checkpoints.best_metric),
      checkpoints.best_score,
      checkpoints.best,
      checkpoints.is_best_left ? "; the model that is left is of it" : "");
}

/// The newest result that is of these samples.
const proto::EvaluationRow* NewestOn(const proto::JobStatus& status, std::string_view samples) {
  for (size_t i = status.evaluations.size(); i-- > 0;) {
    if (EvaluatedOn(status, i) == samples) {
      return &status.evaluations[i];
    }
  }
  return nullptr;
}

void AddNewest(const proto::JobStatus& status, const std::string& samples, JsonWriter* json) {
  const proto::EvaluationRow* const row = NewestOn(status, samples);
  const std::string metric = fmt::format("{}_{}", samples, proto::MetricName(status.metric));
  if (row == nullptr) {
    json->Field(metric, nullptr);
    json->Field(samples + "_loss", nullptr);
  } else {
    json->Field(metric, row->accuracy);
    json->Field(samples + "_loss", row->loss);
  }
}

void AddBest(const proto::CheckpointStatus& checkpoints, JsonWriter* json) {
  if (checkpoints.best == 0) {
    return;
  }
  json->Key("best");
  json->BeginObject();
  json->Field("epoch", checkpoints.best_epoch);
  json->Field("checkpoint", checkpoints.best);
  json->Field("metric", checkpoints.best_metric);
  json->Field("score", checkpoints.best_score);
  json->Field("is_left", checkpoints.is_best_left);
  json->EndObject();
}

void AddLedger(const proto::JobStatus& status, JsonWriter* json) {
  json->BeginList("ledger");
  for (const proto::LedgerRow& row : status.ledger) {
    json->BeginObject();
    json->Field("epoch", row.epoch + 1);
    json->Field("samples_total", row.samples_total);
    json->Field("samples_counted", row.samples_counted);
    json->Field("samples_leased", row.samples_leased);
    json->Field("samples_returned", row.samples_returned);
    json->EndObject();
  }
  json->EndList();
}

void AddModes(const proto::JobStatus& status, JsonWriter* json) {
  json->Field("mode", proto::ModeText(status.modes.in_force));
  json->BeginList("mode_switches");
  for (const proto::ModeSwitch& made : status.modes.switches) {
    json->BeginObject();
    json->Field("to", proto::ModeText(made.to));
    json->Field("at_s", made.at_s);
    json->Field("samples", made.samples);
    json->Field("by", made.is_policy ? "train.mode_policy" : "request");
    json->EndObject();
  }
  json->EndList();
}

/// The counters that summary and metrics share.
}  // namespace

void AddCounters(const proto::JobStatus& status, JsonWriter* json) {
  const Totals totals = TotalsOf(status);
  json->Field("usd_spent", status.usd_spent);
  json->Field("traffic_usd", status.traffic.usd);
  json->Field("traffic_bytes", status.traffic.bytes);
  json->Field("samples_total", status.samples_total);
  json->Field("samples_counted", status.samples_counted);
  json->Field("samples_rejected", status.samples_rejected);
  json->Field("chunks_overflowed", ChunksOverflowed(status));
  json->Field("steps_counted", status.steps_counted);
  json->Field("steps_lost", status.steps_lost);
  json->Field("steps_partial", status.steps_partial);
  json->Field("revocations_noticed", status.revocations_noticed);
  json->Field("revocations_unnoticed", status.revocations_unnoticed);
  json->Field("joins", status.joins);
  json->Field("rollbacks", status.checkpoints.rollbacks);
  json->Field("steps_undone", status.checkpoints.steps_undone);
  json->Field("samples_undone", status.checkpoints.samples_undone);
  json->Field("seconds_undone", status.checkpoints.seconds_undone);
  json->Field("shards_restored", status.checkpoints.shards_restored);
  json->Field("checkpoints_written", status.checkpoints.committed);
  json->Field("checkpoints_failed", status.checkpoints.failed);
  json->Field("checkpoints_skipped", status.checkpoints.skipped);
  json->Field("checkpoints_damaged", status.checkpoints.damaged);
  json->Field("checkpoints_copied", status.copies.copied);
  json->Field("copies_failed", status.copies.failed);
  json->Field("bytes_copied", status.copies.sent_bytes);
  json->Field("coordinator_restarts", status.journal.restarts);
  const ExchangeTotals& exchange = totals.exchange;
  json->Field("bytes_pushed", exchange.bytes_pushed);
  json->Field("bytes_pulled", exchange.bytes_pulled);
  json->Field("retries", totals.retries);
  json->Field("computing", exchange.computing());
  json->Field("bytes_pushed_per_sample", exchange.PerSample(exchange.bytes_pushed));
  json->Field("bytes_pulled_per_sample", exchange.PerSample(exchange.bytes_pulled));
  json->Field("held_back", exchange.times.held_back);
  json->BeginObject("waited_s");
  json->Field("push", exchange.times.push_s);
  json->Field("pull", exchange.times.pull_s);
  json->Field("others", exchange.times.others_s);
  json->Field("lease", exchange.times.lease_s);
  json->EndObject();
  json->BeginObject("exchange");
  json->Field("push", status.steps.in_force.push.ToText());
  json->Field("pull", status.steps.in_force.pull.ToText());
  json->Field("error_feedback", status.steps.in_force.has_feedback);
  json->Field("local_steps", status.steps.in_force.local_steps);
  json->Field("changes", status.steps.changes);
  json->EndObject();
}

std::string RenderOutcome(const proto::JobStatus& status) {
  const bool has_begun = status.elapsed_s > 0 || status.steps_counted > 0;
  return Printable(status.name) + ": " + std::string(StateName(status.state)) +
         (has_begun ? " after " + FormatDuration(status.elapsed_s) + " of training"
                    : " before training began") +
         (status.detail.empty() ? "" : ": " + Printable(status.detail));
}

std::string_view EvaluatedOn(const proto::JobStatus& status, size_t row) {
  const bool is_last = status.has_last_evaluation && row + 1 == status.evaluations.size();
  return status.validation_samples == 0 || is_last ? "test" : "validation";
}

std::string_view EvaluatedOn(const proto::JobStatus& status) {
  return EvaluatedOn(status, status.evaluations.size() - 1);
}

std::string TrafficText(const proto::JobStatus& status) {
  return FormatUsd(status.traffic.usd) + " USD for " + FormatBytes(status.traffic.bytes);
}

std::string RenderSummary(
    const proto::JobStatus& status, size_t width_max, std::span<const proto::StartSample> starts) {
  std::string out = RenderOutcome(status) + "\n\n";
  if (status.steps_counted == 0) {
    return out + RenderPairs(
                     {{"run directory", Printable(status.run_directory)},
                      {"logs", Printable(status.run_directory) + "/logs"}});
  }
  const Totals totals = TotalsOf(status);
  std::vector<std::pair<std::string, std::string>> pairs;
  if (status.evaluations.empty()) {
    pairs.emplace_back(fmt::format("test {}", MetricTitle(status.metric)), "not evaluated");
  } else {
    const proto::EvaluationRow* const last = &status.evaluations.back();
    const proto::EvaluationRow* const of_epoch = NewestOn(status, "validation");
    const auto add = [&](std::string_view samples, const proto::EvaluationRow& row) {
      pairs.emplace_back(
          fmt::format("{} {}", samples, MetricTitle(status.metric)),
          fmt::format(
              "{} (loss {}, {}, after epoch {})",
              FormatMetric(status.metric, row.accuracy, 2),
              FormatLoss(row.loss),
              Plural(row.samples, "sample"),
              row.epoch));
    };
    add(EvaluatedOn(status), *last);
    if (of_epoch != nullptr && of_epoch != last) {
      add("validation", *of_epoch);
    }
  }
  if (const std::vector<proto::Figure> figures = TestFigures(status); !figures.empty()) {
    pairs.emplace_back("figures", FormatFigures(figures));
  }
  if (status.checkpoints.best != 0) {
    pairs.emplace_back("best epoch", BestText(status.checkpoints));
  }
  if (!status.stopped_early.empty()) {
    pairs.emplace_back("stopped early", Printable(status.stopped_early));
  }
  pairs.emplace_back("training time", FormatDuration(status.elapsed_s));
  if (status.usd_spent > 0) {
    pairs.emplace_back("cost", FormatUsd(status.usd_spent) + " USD");
  }
  if (status.traffic.bytes > 0) {
    pairs.emplace_back("traffic", TrafficText(status));
  }
  pairs.emplace_back("throughput", FormatRate(totals.samples_per_s) + " samples/s");
  pairs.emplace_back(
      "samples",
      FormatCount(status.samples_counted) + " of " + FormatCount(status.samples_total) +
          " counted, " + FormatCount(status.samples_rejected) + " rejected");
  if (const uint64_t overflowed = ChunksOverflowed(status); overflowed > 0) {
    pairs.emplace_back(
        "overflowed",
        Plural(overflowed, "update") + " of a chunk would have made parameters infinite");
  }
  pairs.emplace_back(
      "steps",
      FormatCount(status.steps_counted) + " counted, " + FormatCount(status.steps_lost) +
          " lost (" + FormatCount(status.steps_partial) + " of them partial)");
  if (std::string undone = UndoneText(status.checkpoints); !undone.empty()) {
    pairs.emplace_back("undone", std::move(undone));
  }
  pairs.emplace_back(
      "revocations survived",
      FormatCount(status.revocations_noticed + status.revocations_unnoticed) + " (" +
          FormatCount(status.revocations_noticed) + " with notice, " +
          FormatCount(status.revocations_unnoticed) + " without)");
  if (status.journal.restarts > 0) {
    pairs.emplace_back("coordinator", "restarted " + Plural(status.journal.restarts, "time"));
  }
  pairs.emplace_back("joins", FormatCount(status.joins));
  if (std::string text = StartsText(starts); !text.empty()) {
    pairs.emplace_back("start-up", std::move(text));
  }
  if (status.servers.moves > 0) {
    pairs.emplace_back(
        "servers",
        Plural(status.servers.count, "server") + " at the end; all chunks were placed anew " +
            Plural(status.servers.moves, "time"));
  }
  if (const proto::CheckpointStatus& checkpoints = status.checkpoints; checkpoints.is_on) {
    pairs.emplace_back(
        "checkpoints",
        FormatCount(checkpoints.committed) + " written, " + FormatCount(checkpoints.failed) +
            " failed, " + FormatCount(checkpoints.skipped) + " skipped");
    if (checkpoints.rollbacks > 0) {
      pairs.emplace_back(
          "went back",
          Plural(checkpoints.rollbacks, "time") + " with all servers; " +
              FormatDuration(checkpoints.seconds_undone) + " of training were done again");
    }
    if (checkpoints.damaged > 0) {
      pairs.emplace_back(
          "damaged",
          Plural(checkpoints.damaged, "checkpoint") + " could not be restored; " +
              Printable(checkpoints.damage));
    }
    if (checkpoints.shards_restored > 0) {
      pairs.emplace_back(
          "servers lost",
          Plural(checkpoints.shards_restored, "shard") + " came back from a checkpoint");
    }
  }
  if (const proto::CopyStatus& copies = status.copies; !copies.target.empty()) {
    pairs.emplace_back(
        "copied",
        FormatCount(copies.copied) + " to " + Printable(copies.target) + ", " +
            FormatBytes(copies.sent_bytes) + " sent, " + FormatCount(copies.failed) + " failed" +
            (copies.trouble.empty() ? "" : ", the last one too: " + Printable(copies.trouble)));
  }
  pairs.emplace_back("moved", ExchangeText(totals.exchange));
  pairs.emplace_back(
      "computing", FormatPercent(totals.exchange.computing(), 0) + " of the workers' time");
  if (!IsPlain(status.steps)) {
    pairs.emplace_back("exchange", StepsText(status.steps));
  }
  if (totals.exchange.times.held_back > 0) {
    pairs.emplace_back(
        "held back",
        "up to " + FormatPercent(totals.exchange.times.held_back, 0) +
            " of a gradient, by one worker");
  }
  pairs.emplace_back("run directory", Printable(status.run_directory));
  if (!status.model_file.empty()) {
    const std::string& problem = status.model_problem;
    pairs.emplace_back(
        "model", Printable(status.model_file) + (problem.empty() ? "" : "; " + Printable(problem)));
  } else if (!status.model_problem.empty()) {
    pairs.emplace_back("model", "not saved: " + Printable(status.model_problem));
  }
  out += RenderPairs(pairs);
  if (!status.workers.empty()) {
    out += "\n" + RenderWorkerTotals(status, width_max);
  }
  return out;
}

int ExitCodeOf(std::string_view state, std::string_view model_problem) {
  const bool is_well = (state == "done" || state == "stopped") && model_problem.empty();
  return is_well ? kExitOk : kExitFailed;
}

std::string SummaryToJson(
    const proto::JobStatus& status,
    std::string_view plan_outcome,
    std::span<const proto::StartSample> starts) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("name", status.name);
  json.Field("state", StateName(status.state));
  json.Field("detail", status.detail);
  json.Field("run_directory", status.run_directory);
  if (status.model_file.empty()) {
    json.Field("model", nullptr);
  } else {
    json.Field("model", status.model_file);
  }
  json.Field("model_problem", status.model_problem);
  json.Field("epochs", status.epochs);
  json.Field("metric", proto::MetricName(status.metric));
  AddNewest(status, "test", &json);
  if (status.validation_samples > 0) {
    AddNewest(status, "validation", &json);
    json.Field("validation_samples", status.validation_samples);
  }
  AddBest(status.checkpoints, &json);
  if (!status.stopped_early.empty()) {
    json.Field("stopped_early", status.stopped_early);
  }
  json.Field("train_loss", status.train_loss);
  if (proto::IsShare(status.metric)) {
    json.Field(TrainMetricName(status.metric), status.train_accuracy);
  }
  AddFigures(status, &json);
  json.Field("elapsed_s", status.elapsed_s);
  json.Field("samples_per_s", TotalsOf(status).samples_per_s);
  AddCounters(status, &json);
  AddEvaluations(status, &json);
  AddLedger(status, &json);
  AddModes(status, &json);
  if (!plan_outcome.empty()) {
    json.Key("plan");
    json.Raw(plan_outcome);
  }
  AddStarts(starts, &json);
  AddWorkers(status, &json);
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace ps::run
