#include "run/metrics.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ps/json/json_writer.h"
#include "run/report/metric_text.h"
#include "run/report/run_events.h"
#include "run/report/summary.h"

namespace ps::run {
namespace {

double UnixSeconds(int64_t unix_micros) {
  return static_cast<double>(unix_micros) / 1e6;
}

template <typename T>
void AddField(std::string_view key, const std::optional<T>& value, JsonWriter* json) {
  if (value) {
    json->Field(key, *value);
  } else {
    json->Field(key, nullptr);
  }
}

}  // namespace

MetricsPoint MetricsMeter::Measure(const proto::JobStatus& status) {
  MetricsPoint point;
  if (!status.ledger.empty() && status.ledger.front().samples_total > 0) {
    point.epoch = static_cast<double>(status.samples_counted) /
                  static_cast<double>(status.ledger.front().samples_total);
  }
  if (status.steps_counted > 0) {
    point.samples_per_s = status.samples_per_s;
    point.train_loss = status.train_loss;
    if (proto::IsShare(status.metric)) {
      point.train_accuracy = status.train_accuracy;
    }
  }
  if (!status.evaluations.empty()) {
    point.evaluation = status.evaluations.back();
  }
  uint64_t pulls = 0;
  uint64_t lead_sum = 0;
  for (const proto::ShardRow& shard : status.shards) {
    if (shard.stats.chunk_count > 0) {
      point.lr = std::max(point.lr.value_or(0), shard.stats.lr);
    }
    for (size_t lead = 0; lead < shard.stats.staleness_histogram.size(); ++lead) {
      pulls += shard.stats.staleness_histogram[lead];
      lead_sum += lead * shard.stats.staleness_histogram[lead];
    }
  }
  if (pulls > pulls_ && lead_sum >= lead_sum_) {
    point.staleness_steps =
        static_cast<double>(lead_sum - lead_sum_) / static_cast<double>(pulls - pulls_);
  }
  pulls_ = pulls;
  lead_sum_ = lead_sum;
  return point;
}

std::string MetricsToJson(
    const proto::JobStatus& status, const MetricsPoint& point, int64_t unix_micros) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("time_unix_s", UnixSeconds(unix_micros));
  json.Field("elapsed_s", status.elapsed_s);
  json.Field("state", proto::StateName(status.state));
  AddField("epoch", point.epoch, &json);
  AddField("train_loss", point.train_loss, &json);
  if (proto::IsShare(status.metric)) {
    AddField(TrainMetricName(status.metric), point.train_accuracy, &json);
  }
  const auto& test = point.evaluation;
  AddField("test_loss", test ? std::optional(test->loss) : std::nullopt, &json);
  AddField(
      TestMetricName(status.metric), test ? std::optional(test->accuracy) : std::nullopt, &json);
  AddField("test_epoch", test ? std::optional(test->epoch) : std::nullopt, &json);
  AddField("lr", point.lr, &json);
  AddField("staleness_steps", point.staleness_steps, &json);
  AddField("samples_per_s", point.samples_per_s, &json);
  json.Field("generation", status.generation.value);
  json.Field("round", status.round);
  json.Field("workers_alive", CountWorkers(status));
  AddCounters(status, &json);
  json.Field("metric", proto::MetricName(status.metric));
  json.BeginObject("figures");
  for (const proto::Figure& figure : status.figures) {
    json.Field(figure.name, figure.value);
  }
  json.EndObject();
  json.BeginList("workers");
  for (const proto::WorkerRow& row : status.workers) {
    if (row.is_gone()) {
      continue;  // it has no rate any more, and its samples are in the sum
    }
    json.BeginObject();
    json.Field("worker", row.worker.value);
    json.Field("incarnation", row.incarnation.value);
    json.Field("state", proto::StateName(row.state));
    AddField(
        "samples_per_s",
        row.stats.steps > 0 ? std::optional(row.stats.samples_per_s) : std::nullopt,
        &json);
    json.Field("samples_counted", row.samples_counted);
    json.Field("clock", row.clock);
    json.Field("staleness", row.staleness);
    json.Field("held_back", row.stats.times.held_back);
    json.EndObject();
  }
  json.EndList();
  json.EndObject();
  return std::move(json).Take();
}

std::vector<Scalar> ScalarsOf(const proto::JobStatus& status, const MetricsPoint& point) {
  std::vector<Scalar> scalars;
  const auto add = [&scalars](std::string tag, const std::optional<double>& value) {
    if (value) {
      scalars.push_back({std::move(tag), static_cast<float>(*value)});
    }
  };
  add("train/loss", point.train_loss);
  add(fmt::format("train/{}", proto::MetricName(status.metric)), point.train_accuracy);
  add("train/lr", point.lr);
  add("train/epoch", point.epoch);
  add("train/staleness_steps", point.staleness_steps);
  add("fleet/samples_per_s", point.samples_per_s);
  add("fleet/workers", static_cast<double>(CountWorkers(status)));
  for (const proto::Figure& figure : status.figures) {
    // Those of evaluations stand beside test/loss.
    const std::string_view name = figure.name;
    add(name.starts_with("test_") ? fmt::format("test/{}", name.substr(5))
                                  : fmt::format("script/{}", name),
        figure.value);
  }
  return scalars;
}

Result<MetricsFiles> MetricsFiles::Open(
    const RunPaths& paths, bool has_tensorboard, int64_t unix_micros) {
  MetricsFiles files;
  PS_ASSIGN(files.lines_, AppendFile::Open(paths.metrics()));
  if (!has_tensorboard) {
    return files;
  }
  std::error_code error;
  std::filesystem::create_directory(paths.tensorboard(), error);
  if (error) {
    return Status::Io(fmt::format("cannot make {}: {}", paths.tensorboard(), error.message()));
  }
  PS_ASSIGN(
      files.events_, AppendFile::Open(paths.tensorboard() + "/" + EventFileName(unix_micros)));
  files.events_->Append(EncodeEventVersion(UnixSeconds(unix_micros)));
  return files;
}

namespace {

/// The row of the model that is left is one more.
uint32_t EpochOf(const proto::JobStatus& status, size_t row) {
  const bool is_last = status.has_last_evaluation && row + 1 == status.evaluations.size();
  return is_last ? UINT32_MAX : status.evaluations[row].epoch;
}

}  // namespace

void MetricsFiles::SkipEvaluations(const proto::JobStatus& status) {
  for (size_t i = 0; i < status.evaluations.size(); ++i) {
    evaluations_told_.insert(EpochOf(status, i));
  }
}

std::optional<std::string> MetricsFiles::Write(
    const proto::JobStatus& status, int64_t unix_micros) {
  const MetricsPoint point = meter_.Measure(status);
  std::optional<std::string> said = lines_.Append(MetricsToJson(status, point, unix_micros) + "\n");
  if (!events_) {
    return said;
  }
  std::string events =
      EncodeEvent(UnixSeconds(unix_micros), status.steps_counted, ScalarsOf(status, point));
  for (size_t i = 0; i < status.evaluations.size(); ++i) {
    const proto::EvaluationRow& row = status.evaluations[i];
    const std::string samples(EvaluatedOn(status, i));
    if (evaluations_told_.insert(EpochOf(status, i)).second) {
      events += EncodeEvent(
          UnixSeconds(unix_micros),
          status.steps_counted,
          {{samples + "/loss", static_cast<float>(row.loss)},
           {fmt::format("{}/{}", samples, proto::MetricName(status.metric)),
            static_cast<float>(row.accuracy)}});
    }
  }
  const std::optional<std::string> events_said = events_->Append(events);
  return said ? said : events_said;
}

}  // namespace ps::run
