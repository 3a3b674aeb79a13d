#include "run/page/state_json.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>
#include <tuple>

#include "ps/json/json_value.h"
#include "run/report/exchange.h"
#include "run/report/metric_text.h"
#include "run/report/run_events.h"
#include "run/report/summary.h"

namespace ps::run {
namespace {

constexpr size_t kTextMax = 400;
constexpr size_t kWaitsMax = 8;
constexpr size_t kGoneMax = 8;

/// A worker that is there is waited for longer than half the time in which it counts as lost.
bool IsSilent(const proto::WorkerRow& row, const proto::JobStatus& status) {
  return !row.is_gone() && status.max_detect_s > 0 && row.silent_s > status.max_detect_s / 2;
}

/// How early a person looks at a worker that is there: the lower, the earlier.
int Rank(const proto::WorkerRow& row, const proto::JobStatus& status) {
  if (IsSilent(row, status) || row.state == proto::WorkerRowState::kSitsOut ||
      row.state == proto::WorkerRowState::kDraining) {
    return 0;
  }
  return 1;
}

std::string_view Short(std::string_view text) {
  return text.substr(0, kTextMax);
}

void AddWorker(const proto::WorkerRow& row, const proto::JobStatus& status, JsonWriter* json) {
  ExchangeTotals totals;
  totals.Add(row.stats);
  json->BeginObject();
  json->Field("worker", row.worker.value);
  json->Field("state", proto::StateName(row.state));
  json->Field("is_gone", row.is_gone());
  json->Field("is_silent", IsSilent(row, status));
  json->Field("type", Short(row.type));
  json->Field("device", Short(row.device));
  json->Field("host", Short(row.host));
  json->Field("pid", row.pid);
  json->Field("samples_per_s", row.is_gone() ? 0.0 : row.stats.samples_per_s);
  json->Field("steps", row.stats.steps);
  json->Field("samples_counted", row.samples_counted);
  json->Field("clock", row.clock);
  json->Field("staleness", row.staleness);
  json->Field("computing", totals.computing());
  json->Field("silent_s", row.silent_s);
  json->Field("bytes_pushed", row.stats.bytes_pushed);
  json->Field("bytes_pulled", row.stats.bytes_pulled);
  json->Field("push_s", row.stats.times.push_s);
  json->Field("pull_s", row.stats.times.pull_s);
  json->Field("retries", row.stats.retries);
  json->Field("usd_per_hour", row.usd_per_hour);
  json->Field("reason", Short(row.reason));
  json->EndObject();
}

/// All of a type, or of a state, together.
struct Group {
  uint64_t count = 0;
  double samples_per_s = 0;
  double usd_per_hour = 0;
};

void AddFleet(const proto::JobStatus& status, JsonWriter* json) {
  std::map<std::string_view, uint64_t> by_state;
  std::map<std::string_view, Group> by_type;
  std::vector<double> rates;
  float staleness_max = 0;
  uint64_t silent = 0;
  for (const proto::WorkerRow& row : status.workers) {
    ++by_state[proto::StateName(row.state)];
    if (row.is_gone()) {
      continue;
    }
    Group& group = by_type[row.type];
    ++group.count;
    group.samples_per_s += row.stats.samples_per_s;
    group.usd_per_hour += row.usd_per_hour;
    staleness_max = std::max(staleness_max, row.staleness);
    silent += IsSilent(row, status) ? 1 : 0;
    if (row.stats.steps > 0) {
      rates.push_back(row.stats.samples_per_s);
    }
  }
  std::ranges::sort(rates);
  json->BeginObject("fleet");
  json->Field("alive", CountWorkers(status));
  json->Field("wanted", status.workers_wanted);
  json->Field("known", status.workers.size());
  json->Field("silent", silent);
  json->Field("staleness_max", staleness_max);
  json->Field("rate_min", rates.empty() ? 0.0 : rates.front());
  json->Field("rate_median", rates.empty() ? 0.0 : rates[rates.size() / 2]);
  json->Field("rate_max", rates.empty() ? 0.0 : rates.back());
  json->BeginObject("states");
  for (const auto& [state, count] : by_state) {
    json->Field(state, count);
  }
  json->EndObject();
  json->BeginList("types");
  size_t shown = 0;
  for (const auto& [type, group] : by_type) {
    if (++shown > kWorstMax) {
      break;
    }
    const auto row = std::ranges::find(status.fleet, type, &proto::FleetRow::type);
    json->BeginObject();
    json->Field("type", Short(type));
    json->Field("present", group.count);
    json->Field("samples_per_s", group.samples_per_s);
    json->Field("usd_per_hour", group.usd_per_hour);
    json->Field("wanted", row == status.fleet.end() ? uint64_t{0} : uint64_t{row->wanted});
    json->EndObject();
  }
  json->EndList();
  json->BeginList("groups");
  for (size_t i = 0; i < std::min(status.fleet.size(), kWorstMax); ++i) {
    const proto::FleetRow& row = status.fleet[i];
    json->BeginObject();
    json->Field("type", Short(row.type));
    json->Field("wanted", row.wanted);
    json->Field("present", row.present);
    json->Field("waiting", row.waiting);
    json->Field("why", Short(row.why));
    json->EndObject();
  }
  json->EndList();
  json->EndObject();
}

void AddServers(const proto::JobStatus& status, JsonWriter* json) {
  std::vector<const proto::ShardRow*> rows;
  double received = 0;
  double sent = 0;
  uint64_t chunks = 0;
  uint64_t bytes = 0;
  for (const proto::ShardRow& row : status.shards) {
    rows.push_back(&row);
    received += row.received_bytes_per_s;
    sent += row.sent_bytes_per_s;
    chunks += row.stats.chunk_count;
    bytes += row.stats.parameter_bytes;
  }
  // Where not all are shown, those with trouble, then the busiest links.
  if (rows.size() > kAllMax) {
    const auto order = [](const proto::ShardRow* row) {
      return std::tuple(
          row->state == proto::ShardRowState::kReady,
          -(row->received_bytes_per_s + row->sent_bytes_per_s),
          row->shard);
    };
    std::ranges::sort(rows, {}, order);
    rows.resize(kWorstMax);
  }
  json->BeginObject("servers");
  json->Field("count", status.servers.count);
  json->Field("wanted", status.servers.wanted);
  json->Field("shards", status.shards.size());
  json->Field("is_moving", status.servers.is_moving);
  json->Field("moves", status.servers.moves);
  json->Field("chunks_pinned", status.servers.chunks_pinned);
  json->Field("shares", proto::SharesText(status.servers.shares));
  json->Field("trouble", Short(status.servers.trouble));
  json->Field("chunks", chunks);
  json->Field("parameter_bytes", bytes);
  json->Field("received_bytes_per_s", received);
  json->Field("sent_bytes_per_s", sent);
  json->BeginList("rows");
  for (const proto::ShardRow* const row : rows) {
    uint64_t pulls = 0;
    uint64_t lead = 0;
    for (size_t i = 0; i < row->stats.staleness_histogram.size(); ++i) {
      pulls += row->stats.staleness_histogram[i];
      lead += i * row->stats.staleness_histogram[i];
    }
    json->BeginObject();
    json->Field("shard", row->shard.value);
    json->Field("state", proto::StateName(row->state));
    json->Field("address", Short(row->address));
    json->Field("pid", row->pid);
    json->Field("chunks", row->stats.chunk_count);
    json->Field("parameter_bytes", row->stats.parameter_bytes);
    json->Field("steps", row->stats.steps_applied);
    json->Field("lr", row->stats.lr);
    json->Field(
        "staleness", pulls == 0 ? 0.0 : static_cast<double>(lead) / static_cast<double>(pulls));
    json->Field("bytes_received", row->stats.bytes_received);
    json->Field("bytes_sent", row->stats.bytes_sent);
    json->Field("received_bytes_per_s", row->received_bytes_per_s);
    json->Field("sent_bytes_per_s", row->sent_bytes_per_s);
    json->EndObject();
  }
  json->EndList();
  json->EndObject();
}

void AddCheckpoints(const proto::JobStatus& status, JsonWriter* json) {
  const proto::CheckpointStatus& checkpoints = status.checkpoints;
  json->BeginObject("checkpoints");
  json->Field("is_on", checkpoints.is_on);
  json->Field("newest", checkpoints.newest);
  json->Field("age_s", checkpoints.age_s);
  json->Field("open", checkpoints.open);
  json->Field("committed", checkpoints.committed);
  json->Field("failed", checkpoints.failed);
  json->Field("skipped", checkpoints.skipped);
  json->Field("trouble", Short(checkpoints.trouble));
  json->Field("written_bytes", checkpoints.sizes.written_bytes);
  json->Field("rollbacks", checkpoints.rollbacks);
  json->Field("undone", UndoneText(checkpoints));
  json->Field("copies_to", Short(status.copies.target));
  json->Field("copied", status.copies.copied);
  json->Field("copies_failed", status.copies.failed);
  json->Field("copy_trouble", Short(status.copies.trouble));
  json->EndObject();
}

/// What a person should know at once, in words.
void AddNotices(const proto::JobStatus& status, JsonWriter* json) {
  std::vector<std::string> notices;
  const auto add = [&notices](std::string text) {
    if (!text.empty()) {
      notices.push_back(std::move(text));
    }
  };
  if (const std::string waiting = WaitingText(status); !waiting.empty()) {
    add("waiting: " + waiting);
  }
  add(status.servers.trouble);
  if (!status.checkpoints.trouble.empty()) {
    add("the newest checkpoint failed: " + status.checkpoints.trouble);
  }
  if (!status.copies.trouble.empty()) {
    add("the newest copy of a checkpoint failed: " + status.copies.trouble);
  }
  if (!status.journal.trouble.empty()) {
    add("the coordinator could not be started again now: " + status.journal.trouble);
  }
  if (status.has_diverged) {
    add("training has diverged");
  }
  if (!status.model_problem.empty()) {
    add("the model was not saved: " + status.model_problem);
  }
  json->BeginList("notices");
  for (const std::string& notice : notices) {
    json->Value(Short(notice));
  }
  json->EndList();
}

/// A member's value; 0 and "" where there is none of the kind.
class Fields {
 public:
  explicit Fields(const JsonValue& object) : object_(object) {}

  double Number(std::string_view name) const {
    const JsonValue* const value = object_.Find(name);
    return value == nullptr || value->kind != JsonValue::Kind::kNumber
               ? 0
               : std::strtod(value->text.c_str(), nullptr);
  }

  uint64_t Count(std::string_view name) const {
    const double number = Number(name);
    return number > 0 && number < 1e18 ? static_cast<uint64_t>(number) : 0;
  }

  std::string Text(std::string_view name) const {
    const JsonValue* const value = object_.Find(name);
    return value == nullptr || value->kind != JsonValue::Kind::kText ? "" : value->text;
  }

  const std::vector<JsonValue>& List(std::string_view name) const {
    static const std::vector<JsonValue> kNone;
    const JsonValue* const value = object_.Find(name);
    return value == nullptr || value->kind != JsonValue::Kind::kList ? kNone : value->children;
  }

 private:
  const JsonValue& object_;
};

template <typename State>
State StateOf(const std::string& name, State last, State otherwise) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (proto::StateName(static_cast<State>(i)) == name) {
      return static_cast<State>(i);
    }
  }
  return otherwise;
}

proto::WorkerRow WorkerFromSummary(const JsonValue& object) {
  const Fields fields(object);
  proto::WorkerRow row;
  row.worker = WorkerId(static_cast<uint32_t>(fields.Count("worker")));
  row.incarnation = Incarnation(fields.Count("incarnation"));
  row.state =
      StateOf(fields.Text("state"), proto::WorkerRowState::kFailed, proto::WorkerRowState::kLeft);
  row.host = fields.Text("host");
  row.device = fields.Text("device");
  row.type = fields.Text("type");
  row.reason = fields.Text("reason");
  row.samples_counted = fields.Count("samples_counted");
  row.stats.samples_per_s = fields.Number("samples_per_s");
  row.stats.steps = fields.Count("steps");
  row.stats.compute_s = fields.Number("compute_s");
  row.stats.wait_s = fields.Number("wait_s");
  row.stats.bytes_pushed = fields.Count("bytes_pushed");
  row.stats.bytes_pulled = fields.Count("bytes_pulled");
  return row;
}

}  // namespace

std::vector<const proto::WorkerRow*> WorstWorkers(const proto::JobStatus& status, size_t max) {
  std::vector<const proto::WorkerRow*> here;
  std::vector<const proto::WorkerRow*> gone;
  for (const proto::WorkerRow& row : status.workers) {
    (row.is_gone() ? gone : here).push_back(&row);
  }
  const size_t all = status.workers.size();
  const size_t shown = all <= kAllMax ? all : std::min(max, all);
  // The newest of those that were lost are news, however many others there are.
  const size_t room = here.size() < shown ? shown - here.size() : 0;
  const size_t gone_shown = std::min(gone.size(), std::max(room, std::min(kGoneMax, shown / 2)));
  const auto keep = [](std::vector<const proto::WorkerRow*>* rows, size_t count, auto is_before) {
    count = std::min(count, rows->size());
    std::partial_sort(
        rows->begin(), rows->begin() + static_cast<std::ptrdiff_t>(count), rows->end(), is_before);
    rows->resize(count);
  };
  // Where all are shown, rows do not change places with every look.
  const bool is_by_speed = shown < all;
  const auto order = [&status, is_by_speed](const proto::WorkerRow* row) {
    return std::tuple(
        Rank(*row, status), is_by_speed ? row->stats.samples_per_s : 0.0, row->worker);
  };
  keep(&here, shown - gone_shown, [&order](const proto::WorkerRow* a, const proto::WorkerRow* b) {
    return order(a) < order(b);
  });
  keep(&gone, gone_shown, [](const proto::WorkerRow* a, const proto::WorkerRow* b) {
    return a->incarnation > b->incarnation;
  });
  here.insert(here.end(), gone.begin(), gone.end());
  return here;
}

void AddPageState(const proto::JobStatus& status, JsonWriter* json) {
  json->Field("name", Short(status.name));
  json->Field("run_directory", Short(status.run_directory));
  json->Field("state", proto::StateName(status.state));
  json->Field("is_ended", status.state >= proto::RunState::kDone);
  json->Field("detail", Short(status.detail));
  json->Field("mode", proto::ModeText(status.modes.in_force));
  json->Field("mode_wanted", proto::ModeText(status.modes.wanted));
  json->Field("exchange", StepsText(status.steps));
  json->Field("epoch", EpochNow(status));
  json->Field("epochs", status.epochs);
  json->Field("samples_counted", status.samples_counted);
  json->Field("samples_total", status.samples_total);
  json->Field("samples_per_s", status.samples_per_s);
  json->Field("elapsed_s", status.elapsed_s);
  json->Field("eta_s", status.eta_s);
  json->Field("steps_counted", status.steps_counted);
  json->Field("steps_lost", status.steps_lost);
  json->Field("steps_partial", status.steps_partial);
  if (status.steps_counted > 0) {
    json->Field("train_loss", status.train_loss);
    if (proto::IsShare(status.metric)) {
      json->Field("train_accuracy", status.train_accuracy);
    }
  }
  json->Field("metric", MetricTitle(status.metric));
  if (!status.evaluations.empty()) {
    json->Field("test_loss", status.evaluations.back().loss);
    json->Field("test_accuracy", status.evaluations.back().accuracy);
    json->Field("test_epoch", status.evaluations.back().epoch);
    json->Field("measured_on", EvaluatedOn(status));
  }
  json->Field("revocations_noticed", status.revocations_noticed);
  json->Field("revocations_unnoticed", status.revocations_unnoticed);
  json->Field("joins", status.joins);
  json->Field("coordinator_restarts", status.journal.restarts);
  json->Field("usd_spent", status.usd_spent);
  json->Field("usd_per_hour", status.usd_per_hour);
  json->Field("traffic_usd", status.traffic.usd);
  json->Field("traffic_usd_per_hour", status.traffic.usd_per_hour);
  json->Field("traffic_bytes", status.traffic.bytes);
  json->BeginObject("figures");
  for (const proto::Figure& figure : status.figures) {
    json->Field(Short(figure.name), figure.value);
  }
  json->EndObject();
  AddNotices(status, json);
  AddFleet(status, json);
  json->BeginList("workers");
  const std::vector<const proto::WorkerRow*> worst = WorstWorkers(status, kWorstMax);
  for (const proto::WorkerRow* const row : worst) {
    AddWorker(*row, status, json);
  }
  json->EndList();
  json->Field("workers_hidden", status.workers.size() - worst.size());
  AddServers(status, json);
  AddCheckpoints(status, json);
  json->BeginList("waits");
  for (size_t i = 0; i < std::min(status.waits.size(), kWaitsMax); ++i) {
    const proto::Wait& wait = status.waits[i];
    json->BeginObject();
    json->Field("who", Short(wait.who));
    json->Field("for_whom", Short(wait.for_whom));
    json->Field("why", Short(wait.what));
    json->Field("since_s", wait.since_s);
    json->EndObject();
  }
  json->EndList();
}

proto::JobStatus StatusFromSummary(const std::string& text, const std::string& file) {
  proto::JobStatus status;
  const Result<JsonValue> object = ParseJson(text, file);
  if (!object.ok() || object->kind != JsonValue::Kind::kObject) {
    return status;
  }
  const Fields fields(*object);
  status.name = fields.Text("name");
  status.run_directory = fields.Text("run_directory");
  status.state = StateOf(fields.Text("state"), proto::RunState::kFailed, proto::RunState::kStopped);
  status.detail = fields.Text("detail");
  status.model_problem = fields.Text("model_problem");
  status.epochs = static_cast<uint32_t>(std::min<uint64_t>(fields.Count("epochs"), UINT32_MAX));
  status.train_loss = fields.Number("train_loss");
  status.metric = MetricOfName(fields.Text("metric"));
  status.train_accuracy = fields.Number(TrainMetricName(status.metric));
  status.elapsed_s = fields.Number("elapsed_s");
  status.samples_per_s = fields.Number("samples_per_s");
  status.samples_total = fields.Count("samples_total");
  status.samples_counted = fields.Count("samples_counted");
  status.samples_rejected = fields.Count("samples_rejected");
  status.steps_counted = fields.Count("steps_counted");
  status.steps_lost = fields.Count("steps_lost");
  status.steps_partial = fields.Count("steps_partial");
  status.revocations_noticed = fields.Count("revocations_noticed");
  status.revocations_unnoticed = fields.Count("revocations_unnoticed");
  status.joins = fields.Count("joins");
  status.usd_spent = fields.Number("usd_spent");
  status.traffic.usd = fields.Number("traffic_usd");
  status.traffic.bytes = fields.Count("traffic_bytes");
  status.checkpoints.committed = fields.Count("checkpoints_written");
  status.checkpoints.is_on = status.checkpoints.committed > 0;
  status.checkpoints.failed = fields.Count("checkpoints_failed");
  status.checkpoints.skipped = fields.Count("checkpoints_skipped");
  status.checkpoints.rollbacks = fields.Count("rollbacks");
  status.copies.copied = fields.Count("checkpoints_copied");
  for (const JsonValue& row : fields.List("evaluations")) {
    const Fields evaluation(row);
    status.evaluations.push_back(
        {static_cast<uint32_t>(evaluation.Count("epoch")),
         evaluation.Number(proto::MetricName(status.metric)),
         evaluation.Number("loss"),
         evaluation.Count("samples"),
         evaluation.Number("at_s")});
  }
  for (const JsonValue& row : fields.List("workers")) {
    status.workers.push_back(WorkerFromSummary(row));
  }
  return status;
}

}  // namespace ps::run
