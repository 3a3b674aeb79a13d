#include "run/page/prometheus.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "run/report/run_events.h"
#include "run/report/summary.h"

namespace ps::run {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

constexpr std::string_view kGauge = "gauge";
constexpr std::string_view kCounter = "counter";

class MetricsText {
 public:
  /// `job`: a label of every line.
  explicit MetricsText(std::string_view job) : job_(job) {}

  /// Lines of this name follow. Requires: `help` has neither backslash nor newline.
  void Family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_.append("# HELP ").append(name).append(" ").append(help).append("\n");
    text_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
  }

  void Line(double value, const Labels& labels = {}) {
    text_.append(name_).append("{job_name=\"");
    Escape(job_);
    for (const auto& [label, text] : labels) {
      text_.append("\",").append(label).append("=\"");
      Escape(text);
    }
    text_.append("\"} ");
    if (std::isfinite(value)) {
      text_.append(NumberText(value));
    } else {
      text_.append(std::isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
    }
    text_.push_back('\n');
  }

  void Line(uint64_t value, const Labels& labels = {}) { Line(static_cast<double>(value), labels); }

  /// A name with one line.
  template <typename Value>
  void One(
      std::string_view name, std::string_view type, std::string_view help, const Value& value) {
    Family(name, type, help);
    Line(value);
  }

  std::string Take() && { return std::move(text_); }

 private:
  void Escape(std::string_view text) {
    for (const char c : Printable(text)) {
      if (c == '\\' || c == '"') {
        text_.push_back('\\');
      }
      text_.push_back(c);
    }
  }

  const std::string_view job_;
  std::string_view name_;
  std::string text_;
};

void AddRun(const proto::JobStatus& status, std::string_view software, MetricsText* text) {
  text->Family("spotps_run_info", kGauge, "The run, its mode and its software; always 1.");
  text->Line(
      uint64_t{1},
      {{"run", std::string_view(status.run_directory).substr(status.run_directory.rfind('/') + 1)},
       {"mode", proto::ModeText(status.modes.in_force)},
       {"software", software}});
  text->Family("spotps_run_state", kGauge, "1 for the state that the run is in, 0 for the others.");
  for (int i = 0; i <= static_cast<int>(proto::RunState::kFailed); ++i) {
    const auto state = static_cast<proto::RunState>(i);
    text->Line(uint64_t{state == status.state ? 1U : 0U}, {{"state", proto::StateName(state)}});
  }
  text->One(
      "spotps_training_seconds_total", kCounter, "Time since training began.", status.elapsed_s);
  if (status.eta_s >= 0) {
    text->One("spotps_eta_seconds", kGauge, "Time until the job is done.", status.eta_s);
  }
  text->One(
      "spotps_epoch",
      kGauge,
      "The epoch that is being trained, from 1.",
      uint64_t{EpochNow(status)});
  text->One("spotps_epochs_wanted", kGauge, "Epochs of the job.", uint64_t{status.epochs});
}

/// The newest evaluation. `part` says whether its samples are those of the tests, or, where the job
/// has any, those of validation.
void AddEvaluation(const proto::JobStatus& status, MetricsText* text) {
  const proto::EvaluationRow& last = status.evaluations.back();
  const Labels part = {{"part", EvaluatedOn(status)}};
  text->Family("spotps_test_loss", kGauge, "Loss of the newest evaluation, on the part's samples.");
  text->Line(last.loss, part);
  switch (status.metric) {
    case proto::Metric::kAccuracy:
      text->Family(
          "spotps_test_accuracy_ratio",
          kGauge,
          "Share of the part's samples that are right, of the newest evaluation.");
      break;
    case proto::Metric::kLabelAccuracy:
      text->Family(
          "spotps_test_label_accuracy_ratio",
          kGauge,
          "Share of the part's labels that are right, of the newest evaluation.");
      break;
    case proto::Metric::kR2:
      text->Family(
          "spotps_test_r2", kGauge, "R squared on the part's samples, of the newest evaluation.");
      break;
  }
  text->Line(last.accuracy, part);
}

void AddTraining(const proto::JobStatus& status, MetricsText* text) {
  if (status.steps_counted > 0) {
    text->One(
        "spotps_train_loss",
        kGauge,
        "Training loss, smoothed, mean per sample.",
        status.train_loss);
    if (status.metric == proto::Metric::kLabelAccuracy) {
      text->One(
          "spotps_train_label_accuracy_ratio",
          kGauge,
          "Share of labels of training samples that are right, smoothed.",
          status.train_accuracy);
    } else if (proto::IsShare(status.metric)) {
      text->One(
          "spotps_train_accuracy_ratio",
          kGauge,
          "Share of training samples that are right, smoothed.",
          status.train_accuracy);
    }
  }
  if (!status.evaluations.empty()) {
    AddEvaluation(status, text);
  }
  text->One(
      "spotps_samples_per_second",
      kGauge,
      "Samples trained a second by the fleet, over the last seconds.",
      status.samples_per_s);
  text->One(
      "spotps_samples_counted_total",
      kCounter,
      "Samples that are counted.",
      status.samples_counted);
  text->One("spotps_samples_wanted", kGauge, "Samples of the job.", status.samples_total);
  text->One(
      "spotps_samples_rejected_total",
      kCounter,
      "Samples whose gradient was not finite.",
      status.samples_rejected);
  text->One(
      "spotps_steps_counted_total", kCounter, "Steps that are counted.", status.steps_counted);
  text->One("spotps_steps_lost_total", kCounter, "Steps lost with workers.", status.steps_lost);
  if (!status.figures.empty()) {
    text->Family(
        "spotps_figure", kGauge, "What evaluations and the workers' program tell besides.");
    for (const proto::Figure& figure : status.figures) {
      text->Line(figure.value, {{"figure", figure.name}});
    }
  }
}

void AddFleet(const proto::JobStatus& status, MetricsText* text) {
  std::vector<uint64_t> by_state(static_cast<size_t>(proto::WorkerRowState::kFailed) + 1);
  std::vector<double> rates;
  float staleness = 0;
  for (const proto::WorkerRow& row : status.workers) {
    ++by_state[static_cast<size_t>(row.state)];
    if (!row.is_gone()) {
      staleness = std::max(staleness, row.staleness);
      rates.push_back(row.stats.samples_per_s);
    }
  }
  std::ranges::sort(rates);
  text->Family(
      "spotps_workers", kGauge, "Workers by state; of those that are gone, the remembered ones.");
  for (size_t i = 0; i < by_state.size(); ++i) {
    text->Line(by_state[i], {{"state", proto::StateName(static_cast<proto::WorkerRowState>(i))}});
  }
  text->One(
      "spotps_workers_wanted",
      kGauge,
      "Workers of all groups that are wanted.",
      uint64_t{status.workers_wanted});
  if (!status.fleet.empty()) {
    text->Family("spotps_type_workers", kGauge, "Workers of a type of machine that take part.");
    for (const proto::FleetRow& row : status.fleet) {
      text->Line(uint64_t{row.present}, {{"type", row.type}});
    }
    text->Family(
        "spotps_type_workers_wanted", kGauge, "Workers of a type of machine that are wanted.");
    for (const proto::FleetRow& row : status.fleet) {
      text->Line(uint64_t{row.wanted}, {{"type", row.type}});
    }
  }
  if (!rates.empty()) {
    text->Family(
        "spotps_workers_samples_per_second",
        kGauge,
        "Samples a second of the slowest worker, of the one in the middle and of the fastest.");
    text->Line(rates.front(), {{"rank", "slowest"}});
    text->Line(rates[rates.size() / 2], {{"rank", "median"}});
    text->Line(rates.back(), {{"rank", "fastest"}});
  }
  text->One(
      "spotps_staleness_steps",
      kGauge,
      "Steps by which gradients come too late, of the worker of which it is most.",
      double{staleness});
  text->One("spotps_worker_joins_total", kCounter, "Workers that have joined.", status.joins);
  text->Family(
      "spotps_revocations_total", kCounter, "Workers lost, by whether a notice came before.");
  text->Line(status.revocations_noticed, {{"notice", "yes"}});
  text->Line(status.revocations_unnoticed, {{"notice", "no"}});
  if (!rates.empty() && rates.size() <= kWorkerMetricsMax) {
    text->Family(
        "spotps_worker_samples_per_second",
        kGauge,
        "Samples a second of each worker, in fleets of up to 128.");
    for (const proto::WorkerRow& row : status.workers) {
      if (!row.is_gone()) {
        text->Line(
            row.stats.samples_per_s,
            {{"worker", std::to_string(row.worker.value)}, {"type", row.type}});
      }
    }
  }
}

void AddServers(const proto::JobStatus& status, MetricsText* text) {
  text->One(
      "spotps_servers",
      kGauge,
      "Servers that have the parameters.",
      uint64_t{status.servers.count});
  text->One(
      "spotps_servers_wanted", kGauge, "Servers that are wanted.", uint64_t{status.servers.wanted});
  if (status.shards.empty() || status.shards.size() > kShardMetricsMax) {
    return;
  }
  const auto each =
      [&](std::string_view name, std::string_view type, std::string_view help, auto value_of) {
        text->Family(name, type, help);
        for (const proto::ShardRow& row : status.shards) {
          text->Line(uint64_t{value_of(row)}, {{"shard", std::to_string(row.shard.value)}});
        }
      };
  each("spotps_shard_ready", kGauge, "1 where the shard serves.", [](const proto::ShardRow& row) {
    return row.state == proto::ShardRowState::kReady ? 1U : 0U;
  });
  each(
      "spotps_shard_chunks",
      kGauge,
      "Chunks of parameters on the shard.",
      [](const proto::ShardRow& row) { return row.stats.chunk_count; });
  each(
      "spotps_shard_parameter_bytes",
      kGauge,
      "Parameters on the shard.",
      [](const proto::ShardRow& row) { return row.stats.parameter_bytes; });
  each(
      "spotps_shard_received_bytes_total",
      kCounter,
      "Gradients that came to the shard.",
      [](const proto::ShardRow& row) { return row.stats.bytes_received; });
  each(
      "spotps_shard_sent_bytes_total",
      kCounter,
      "Parameters that left the shard.",
      [](const proto::ShardRow& row) { return row.stats.bytes_sent; });
  each(
      "spotps_shard_steps_applied_total",
      kCounter,
      "Steps applied by the shard.",
      [](const proto::ShardRow& row) { return row.stats.steps_applied; });
}

void AddSafety(const proto::JobStatus& status, MetricsText* text) {
  const proto::CheckpointStatus& checkpoints = status.checkpoints;
  text->One(
      "spotps_checkpoints_written_total",
      kCounter,
      "Checkpoints of this run.",
      checkpoints.committed);
  text->One(
      "spotps_checkpoints_failed_total", kCounter, "Checkpoints that failed.", checkpoints.failed);
  text->One(
      "spotps_checkpoints_skipped_total",
      kCounter,
      "Checkpoints that were due while one was under way.",
      checkpoints.skipped);
  if (checkpoints.newest > 0) {
    text->One(
        "spotps_checkpoint_age_seconds",
        kGauge,
        "Age of the newest checkpoint.",
        checkpoints.age_s);
    text->One(
        "spotps_checkpoint_written_bytes",
        kGauge,
        "Bytes that the newest checkpoint wrote.",
        checkpoints.sizes.written_bytes);
  }
  text->One(
      "spotps_rollbacks_total",
      kCounter,
      "Returns of all servers to a checkpoint.",
      checkpoints.rollbacks);
  text->One(
      "spotps_steps_undone_total",
      kCounter,
      "Steps counted, then lost with servers.",
      checkpoints.steps_undone);
  text->One(
      "spotps_copies_failed_total",
      kCounter,
      "Copies of checkpoints that failed.",
      status.copies.failed);
  text->One(
      "spotps_coordinator_restarts_total",
      kCounter,
      "Restarts of the coordinator.",
      uint64_t{status.journal.restarts});
  text->One(
      "spotps_cost_usd_total",
      kCounter,
      "Cost at the prices that the job names.",
      status.usd_spent);
  text->One(
      "spotps_cost_usd_per_hour",
      kGauge,
      "Cost an hour of the machines that are held now.",
      status.usd_per_hour);
  text->One(
      "spotps_traffic_usd_total",
      kCounter,
      "Cost of bytes between workers and servers, by the job's traffic.",
      status.traffic.usd);
  text->One(
      "spotps_traffic_usd_per_hour",
      kGauge,
      "The same an hour, over the last minute.",
      status.traffic.usd_per_hour);
  text->One(
      "spotps_traffic_bytes_total",
      kCounter,
      "Bytes between workers and servers that had a price.",
      status.traffic.bytes);
}

}  // namespace

std::string RenderPrometheus(
    const proto::JobStatus& status, std::string_view software, double age_s) {
  MetricsText text(status.name);
  AddRun(status, software, &text);
  AddTraining(status, &text);
  AddFleet(status, &text);
  AddServers(status, &text);
  AddSafety(status, &text);
  text.One("spotps_status_age_seconds", kGauge, "Age of what these lines tell.", age_s);
  return std::move(text).Take();
}

}  // namespace ps::run
