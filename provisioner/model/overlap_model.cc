#include "provisioner/model/overlap_model.h"

#include <algorithm>
#include <cmath>

namespace ps::provisioner {
namespace {

/// Shares of time are known to this; near saturation they come there slowly.
constexpr double kShareError = 1e-9;
constexpr int kShareIterationsMax = 20000;

/// A rate of 0 takes no time.
double Transfer(double bytes, double bytes_per_s) {
  return bytes_per_s > 0 ? bytes / bytes_per_s : 0;
}

double PushBytes(const StepShape& step) {
  double bytes = 0;
  for (const GradientBucket& bucket : step.buckets) {
    bytes += bucket.bytes;
  }
  return bytes;
}

/// The lower of two rates of which 0 is none.
double LowerRate(double a, double b) {
  return a <= 0 ? b : b <= 0 ? a : std::min(a, b);
}

double ServersRate(const ServerSide& servers) {
  return servers.hosts * servers.link_bytes_per_s;
}

WorkerLink Slowed(const WorkerLink& link, double factor) {
  return {link.push_bytes_per_s / factor, link.pull_bytes_per_s / factor, link.round_trip_s};
}

/// A worker's link, limited to what the servers' carries.
WorkerLink Within(const WorkerLink& link, double servers) {
  return {
      LowerRate(link.push_bytes_per_s, servers),
      LowerRate(link.pull_bytes_per_s, servers),
      link.round_trip_s};
}

double StepSeconds(const OverlapWorker& worker, double factor, ExchangeKind kind) {
  return kind == ExchangeKind::kHidden ? worker.HiddenSeconds(factor)
                                       : worker.WaitingSeconds(factor);
}

/// How many times longer each worker's bytes take because of the others'.
std::vector<double> FactorsOf(
    std::span<const OverlapWorker> workers, double servers, ExchangeKind kind) {
  std::vector<double> factors(workers.size(), 1);
  if (servers <= 0) {
    return factors;
  }
  std::vector<double> own;     // share of the servers' link that a worker alone takes
  std::vector<double> shares;  // of its time in which it takes it
  for (const OverlapWorker& worker : workers) {
    own.push_back(std::max(worker.link.push_bytes_per_s, worker.link.pull_bytes_per_s) / servers);
  }
  double change = 1;
  for (int i = 0; i < kShareIterationsMax && change > kShareError; ++i) {
    change = 0;
    shares.resize(workers.size());
    double load = 0;
    for (size_t k = 0; k < workers.size(); ++k) {
      const double busy_s = factors[k] * workers[k].BusySeconds();
      const double share = std::min(busy_s / StepSeconds(workers[k], factors[k], kind), 1.0);
      change = std::max(change, std::abs(share - shares[k]));
      shares[k] = share;
      load += share * own[k];
    }
    for (size_t k = 0; k < workers.size(); ++k) {
      factors[k] = std::max(1.0, own[k] + load - shares[k] * own[k]);
    }
  }
  return factors;
}

/// All workers as one whose every part is the slowest's.
OverlapWorker SlowestOf(std::span<const OverlapWorker> workers, double servers) {
  const auto n = static_cast<double>(workers.size());
  OverlapWorker slowest;
  StepShape& step = slowest.step;
  double end_s = 0;
  for (const OverlapWorker& worker : workers) {
    end_s = std::max(end_s, worker.step.compute_s());
    step.update_s = std::max(step.update_s, worker.step.update_s);
    step.pull_bytes = std::max(step.pull_bytes, worker.step.pull_bytes);
    const WorkerLink link = Within(worker.link, servers / n);
    slowest.link.push_bytes_per_s = LowerRate(slowest.link.push_bytes_per_s, link.push_bytes_per_s);
    slowest.link.pull_bytes_per_s = LowerRate(slowest.link.pull_bytes_per_s, link.pull_bytes_per_s);
    slowest.link.round_trip_s = std::max(slowest.link.round_trip_s, link.round_trip_s);
  }
  // Backward from 0, so that a ready time is a share of the whole.
  step.backward_s = end_s;
  step.buckets.resize(workers.front().step.buckets.size());
  for (size_t k = 0; k < step.buckets.size(); ++k) {
    for (const OverlapWorker& worker : workers) {
      const GradientBucket& bucket = worker.step.buckets[k];
      const double ready_s = worker.step.forward_s + worker.step.backward_s * bucket.ready;
      step.buckets[k].bytes = std::max(step.buckets[k].bytes, bucket.bytes);
      step.buckets[k].ready = std::max(step.buckets[k].ready, ready_s / end_s);
    }
  }
  return slowest;
}

}  // namespace

OverlapTimeline SimulateStep(const StepShape& step, const WorkerLink& link) {
  OverlapTimeline timeline;
  for (const GradientBucket& bucket : step.buckets) {
    BucketTimes times;
    times.ready_s = step.forward_s + step.backward_s * bucket.ready;
    times.start_s = std::max(times.ready_s, timeline.pushed_s);
    times.end_s = times.start_s + Transfer(bucket.bytes, link.push_bytes_per_s);
    timeline.pushed_s = times.end_s;
    timeline.buckets.push_back(times);
  }
  timeline.pulled_s =
      timeline.pushed_s + link.round_trip_s + Transfer(step.pull_bytes, link.pull_bytes_per_s);
  timeline.step_s = std::max(step.compute_s(), timeline.pulled_s) + step.update_s;
  return timeline;
}

double OverlapWorker::WaitingSeconds(double factor) const {
  return SimulateStep(step, Slowed(link, factor)).step_s;
}

double OverlapWorker::HiddenSeconds(double factor) const {
  const WorkerLink slowed = Slowed(link, factor);
  const double push_s = Transfer(PushBytes(step), slowed.push_bytes_per_s);
  const double pull_s = Transfer(step.pull_bytes, slowed.pull_bytes_per_s);
  return std::max({step.compute_s() + step.update_s, push_s + slowed.round_trip_s, pull_s});
}

double OverlapWorker::BusySeconds() const {
  return std::max(
      Transfer(PushBytes(step), link.push_bytes_per_s),
      Transfer(step.pull_bytes, link.pull_bytes_per_s));
}

std::vector<double> OverlapStepSeconds(
    std::span<const OverlapWorker> workers, const ServerSide& servers, ExchangeKind kind) {
  const double rate = ServersRate(servers);
  if (kind == ExchangeKind::kRounds) {
    return std::vector<double>(workers.size(), SlowestOf(workers, rate).WaitingSeconds(1));
  }
  std::vector<OverlapWorker> alone(workers.begin(), workers.end());
  for (OverlapWorker& worker : alone) {
    worker.link = Within(worker.link, rate);
  }
  const std::vector<double> factors = FactorsOf(alone, rate, kind);
  std::vector<double> seconds;
  for (size_t k = 0; k < alone.size(); ++k) {
    seconds.push_back(StepSeconds(alone[k], factors[k], kind));
  }
  return seconds;
}

}  // namespace ps::provisioner
