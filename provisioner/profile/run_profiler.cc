#include "provisioner/profile/run_profiler.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>

#include "provisioner/profile/fingerprint.h"
#include "provisioner/profile/local_steps.h"
#include "provisioner/profile/statistics.h"
#include "ps/proto/job/optimizer_rules.h"

namespace ps::provisioner {
namespace {

/// Share of a stretch with the same workers in which connections open and caches fill.
constexpr double kWarmUpShare = 0.25;
constexpr double kWarmUpMaxS = 3;
/// A worker whose steps are fewer has no rate.
constexpr size_t kPointsMin = 3;
/// Least number of heartbeats for a minibatch's time.
constexpr size_t kTimesMin = 3;
/// Minibatches over which the coordinator smooths the loss: before, it depends more on the
/// beginning of training than on its state.
constexpr double kLossStepsMin = 50;
/// Points of a loss curve are this far apart, as a share of the steps; there are some 500 at most.
constexpr double kLossSpacing = 0.02;
/// Limits on what is kept of each worker during a run. A speed needs only the first and the last
/// point; kPointsMax arrive while the first one may still move.
constexpr size_t kPointsMax = 512;
constexpr size_t kHeartbeatsMax = 512;
constexpr size_t kGoneWorkersMax = 64;
}  // namespace

RunProfiler::RunProfiler(
    std::string job,
    const std::vector<TensorSpec>& tensors,
    std::vector<proto::WorkerGroup> seats,
    const proto::TrainConfig& train,
    proto::ExchangeConfig exchange)
    : job_(std::move(job)),
      fingerprint_(ModelFingerprint(tensors)),
      seats_(std::move(seats)),
      local_steps_(train.local_steps),
      exchange_(std::move(exchange)),
      is_by_speed_(train.local_steps_by_speed) {
  for (const TensorSpec& tensor : tensors) {
    parameter_bytes_ += static_cast<double>(tensor.element_count()) * sizeof(float);
  }
}

std::vector<proto::WorkerGroup> RunProfiler::SeatsOf(const proto::JobConfig& config) {
  std::vector<proto::WorkerGroup> seats;
  for (const proto::WorkerGroup& group : config.workers) {
    seats.insert(seats.end(), group.count, group);
  }
  return seats;
}

const proto::WorkerGroup& RunProfiler::GroupOf(uint32_t seat) const {
  static const proto::WorkerGroup none;
  return seats_.empty() ? none : seats_[std::min<size_t>(seat, seats_.size() - 1)];
}

void RunProfiler::Observe(const proto::JobStatus& status) {
  if (status.state != proto::RunState::kTraining ||
      status.samples_counted >= status.samples_total) {
    return;  // not yet, or the end, in which workers leave one by one
  }
  now_s_ = status.elapsed_s;
  has_steady_exchange_ = has_steady_exchange_ && status.steps.changes == 0;
  std::vector<uint64_t> present;
  for (const proto::WorkerRow& row : status.workers) {
    if (row.incarnation == Incarnation()) {
      continue;
    }
    if (!row.is_gone()) {
      present.push_back(row.incarnation.value);
    }
    Worker& worker = workers_[row.incarnation.value];
    worker.seat = row.worker.value;
    worker.minibatch = std::max(row.minibatch, 1U);
    if (worker.points.empty() || row.samples_counted > worker.samples) {
      AddPoint(row.samples_counted, &worker);
    }
    if (row.is_gone()) {
      continue;  // its last steps may have come without the times and bytes of them
    }
    AddHeartbeat(row.stats, &worker);
  }
  std::ranges::sort(present);
  if (present != present_) {
    has_steady_fleet_ = has_steady_fleet_ && losses_.empty();
    present_ = std::move(present);
    present_since_s_ = now_s_;
    ForgetGoneWorkers();
  }
  const double steps = MinibatchesCounted(status, local_steps_);
  while (!losses_.empty() && losses_.back().steps > steps) {
    losses_.pop_back();  // the run went back to a checkpoint
  }
  if (steps >= kLossStepsMin &&
      (losses_.empty() || steps >= losses_.back().steps * (1 + kLossSpacing))) {
    losses_.push_back({steps, status.train_loss, 0, 0, static_cast<int>(present_.size())});
  }
}

/// Points before MeasuredSince, which only moves on, never count again.
void RunProfiler::AddPoint(uint64_t samples, Worker* worker) const {
  worker->samples = samples;
  std::deque<Point>& points = worker->points;
  while (!points.empty() && points.front().at_s < MeasuredSince()) {
    points.pop_front();
  }
  if (points.size() == kPointsMax) {
    points.pop_back();
  }
  points.push_back({now_s_, samples});
}

/// Computing, bytes and step of one exchange may come with different heartbeats, where it takes
/// longer than from one to the next: what counts is from one new step to the next.
void RunProfiler::AddHeartbeat(const proto::WorkerStats& stats, Worker* worker) const {
  const proto::WorkerStats& before = worker->stats;
  if (stats.steps <= before.steps) {
    return;
  }
  const double minibatches = MinibatchesOf(stats, worker->minibatch, local_steps_) -
                             MinibatchesOf(before, worker->minibatch, local_steps_);
  if (before.steps > 0 && minibatches > 0) {
    const auto steps = static_cast<double>(stats.steps - before.steps);
    worker->minibatches_timed += minibatches;
    worker->heartbeats.push_back(
        {(stats.compute_s - before.compute_s) / minibatches,
         static_cast<double>(stats.bytes_pushed - before.bytes_pushed) / steps,
         static_cast<double>(stats.bytes_pulled - before.bytes_pulled) / steps});
    if (worker->heartbeats.size() > kHeartbeatsMax) {
      worker->heartbeats.pop_front();
    }
  }
  worker->stats = stats;
}

void RunProfiler::ForgetGoneWorkers() {
  size_t gone = workers_.size() - present_.size();
  for (auto it = workers_.begin(); gone > kGoneWorkersMax && it != workers_.end();) {
    if (std::ranges::binary_search(present_, it->first)) {
      ++it;
    } else {
      it = workers_.erase(it);
      --gone;
    }
  }
}

size_t RunProfiler::kept() const {
  size_t kept = losses_.size();
  for (const auto& [incarnation, worker] : workers_) {
    kept += worker.points.size() + worker.heartbeats.size();
  }
  return kept;
}

double RunProfiler::MeasuredSince() const {
  const double stretch_s = now_s_ - present_since_s_;
  return present_since_s_ + std::min(kWarmUpMaxS, stretch_s * kWarmUpShare);
}

bool RunProfiler::IsTypical(uint32_t seat) const {
  const proto::WorkerGroup& group = GroupOf(seat);
  const auto pace = [](const proto::WorkerGroup& of) {
    return std::tie(
        of.slowdown, of.step_ms, of.cpu_share, of.link_mbit_per_s, of.threads, of.device);
  };
  const auto first = std::ranges::find(seats_, group.type, &proto::WorkerGroup::type);
  return first == seats_.end() || pace(*first) == pace(group);
}

RunProfiler::Speed RunProfiler::SpeedSince(const Worker& worker, double since_s) {
  const auto first = std::ranges::find_if(
      worker.points, [since_s](const Point& point) { return point.at_s >= since_s; });
  if (static_cast<size_t>(worker.points.end() - first) < kPointsMin) {
    return {};
  }
  const double seconds = worker.points.back().at_s - first->at_s;
  const auto samples = static_cast<double>(worker.points.back().samples - first->samples);
  if (seconds <= 0) {
    return {};
  }
  return {samples / seconds, samples / seconds / worker.minibatch};
}

proto::FleetSample RunProfiler::Fleet() const {
  proto::FleetSample fleet;
  const double since_s = MeasuredSince();
  for (const uint64_t incarnation : present_) {
    const Worker& worker = workers_.at(incarnation);
    const Speed speed = SpeedSince(worker, since_s);
    if (speed.steps_per_s <= 0) {
      return {};
    }
    fleet.workers.push_back(GroupOf(worker.seat).type);
    fleet.steps_per_s += speed.steps_per_s;
    fleet.samples_per_s += speed.samples_per_s;
  }
  fleet.seconds = now_s_ - since_s;
  return fleet;
}

double RunProfiler::Heterogeneity() const {
  std::vector<int> counts;
  std::vector<double> speeds;
  for (const uint64_t incarnation : present_) {
    counts.push_back(1);
    speeds.push_back(SpeedSince(workers_.at(incarnation), MeasuredSince()).samples_per_s);
  }
  return counts.empty() ? 0 : provisioner::Heterogeneity(counts, speeds);
}

double RunProfiler::Late() const {
  double sum = 0;
  for (const uint64_t incarnation : present_) {
    const proto::WorkerStats& stats = workers_.at(incarnation).stats;
    const auto steps = static_cast<double>(std::max<uint64_t>(stats.steps, 1));
    sum += std::min(static_cast<double>(stats.steps_late) / steps, 1.0);
  }
  return present_.empty() ? 1 : sum / static_cast<double>(present_.size());
}

void RunProfiler::AddWorkers(proto::JobProfile* profile) const {
  struct Times {
    std::vector<double> seconds;  // a minibatch's, one per heartbeat
    double minibatches = 0;
  };

  std::map<std::pair<std::string, int>, Times> kinds;
  for (const auto& [incarnation, worker] : workers_) {
    if (!IsTypical(worker.seat)) {
      continue;
    }
    Times& times = kinds[{GroupOf(worker.seat).type, static_cast<int>(worker.minibatch)}];
    for (const Heartbeat& heartbeat : worker.heartbeats) {
      times.seconds.push_back(heartbeat.compute_s);
    }
    times.minibatches += worker.minibatches_timed;
  }
  for (const auto& [kind, times] : kinds) {
    if (times.seconds.size() < kTimesMin) {
      continue;
    }
    proto::WorkerProfile worker;
    worker.instance_type = kind.first;
    worker.minibatch = kind.second;
    worker.compute_s = Median(times.seconds);
    worker.compute_stddev_s = RobustDeviation(times.seconds, worker.compute_s);
    worker.steps_measured = static_cast<int>(std::lround(times.minibatches));
    if (worker.compute_s > 0) {
      profile->workers.push_back(std::move(worker));
    }
  }
}

/// Medians: a heartbeat also counts bytes of the step under way.
void RunProfiler::AddTraffic(proto::JobProfile* profile) const {
  std::vector<double> pushed;
  std::vector<double> pulled;
  double steps = 0;
  double wait_s = 0;
  for (const auto& [incarnation, worker] : workers_) {
    for (const Heartbeat& heartbeat : worker.heartbeats) {
      pushed.push_back(heartbeat.pushed_bytes);
      pulled.push_back(heartbeat.pulled_bytes);
    }
    steps += static_cast<double>(worker.stats.steps);
    wait_s += worker.stats.wait_s;
  }
  if (pushed.empty()) {
    return;
  }
  profile->push_bytes = Median(std::move(pushed));
  profile->pull_bytes = Median(std::move(pulled));
  // Alone, a worker waits only for its own bytes.
  if (workers_.size() == 1 && wait_s > 0) {
    profile->request_bytes_per_s = (profile->push_bytes + profile->pull_bytes) * steps / wait_s;
  }
}

proto::JobProfile RunProfiler::Profile() const {
  proto::JobProfile profile;
  profile.job = job_;
  profile.model_fingerprint = fingerprint_;
  profile.parameter_bytes = parameter_bytes_;
  profile.local_steps = static_cast<int>(local_steps_);
  profile.push = exchange_.push == proto::kAutoWord ? "f32" : exchange_.push;
  profile.pull = exchange_.pull;
  AddWorkers(&profile);
  if (!has_steady_exchange_) {
    return profile;  // speeds, bytes and losses are of several exchanges
  }
  AddTraffic(&profile);
  proto::FleetSample fleet = Fleet();
  // A curve belongs to a fleet: with several its points can't be told apart.
  if (!fleet.workers.empty() && has_steady_fleet_) {
    profile.losses = losses_;
    for (proto::LossSample& loss : profile.losses) {
      loss.batch_mean = fleet.samples_per_s / fleet.steps_per_s;
      loss.heterogeneity = Heterogeneity();
      loss.late = Late();
    }
  }
  const bool is_typical = std::ranges::all_of(
      present_, [this](uint64_t incarnation) { return IsTypical(workers_.at(incarnation).seat); });
  const bool exchanges_alike = !is_by_speed_ || present_.size() == 1;
  if (!fleet.workers.empty() && is_typical && exchanges_alike) {
    profile.fleets.push_back(std::move(fleet));
  }
  return profile;
}

void LeaveOutOthersCurve(const proto::JobConfig& config, bool goes_on, proto::JobProfile* profile) {
  const auto listed = static_cast<int>(proto::WorkersOfRate(config, config.train.mode));
  const bool has_less_rate =
      listed > 0 && std::ranges::any_of(profile->losses, [listed](const proto::LossSample& loss) {
        return loss.workers > listed;
      });
  if (goes_on || has_less_rate) {
    profile->losses.clear();
  }
}

}  // namespace ps::provisioner
