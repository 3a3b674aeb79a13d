#include "run/report/node_times.h"

#include <algorithm>
#include <cstddef>

#include "run/report/run_events.h"

namespace ps::run {

void NodeTimeMeter::Look(double seconds, uint32_t available, const proto::JobStatus& status) {
  const auto present = static_cast<uint32_t>(CountWorkers(status));
  const uint32_t working = std::min(present, available);
  uint32_t wanted = 0;
  for (const proto::FleetRow& row : status.fleet) {
    wanted += row.wanted;
  }
  const uint32_t starting = std::min(available, std::max(wanted, working)) - working;
  sum_.starting_s += starting * seconds;
  sum_.unused_s += (available - working - starting) * seconds;
  for (const proto::WorkerRow& row : status.workers) {
    if (row.incarnation == Incarnation() || row.is_gone()) {
      continue;
    }
    const auto [it, is_new] = lives_.try_emplace(row.incarnation);
    Life& life = it->second;
    if (is_new) {
      const auto step = step_s_.find(row.type);
      life.step_s = step == step_s_.end() || row.minibatch == 0 ? 0 : step->second / row.minibatch;
      life.begun = is_begun_ ? proto::WorkerStats() : row.stats;
    }
    life.newest = row.stats;
    // Who has more workers than machines has none of its own.
    life.present_s += seconds * working / present;
  }
  is_begun_ = true;
}

NodeTimes NodeTimeMeter::Sum() const {
  NodeTimes sum = sum_;
  for (const auto& [incarnation, life] : lives_) {
    const double computed_s = life.newest.compute_s - life.begun.compute_s;
    const double waited_s = life.newest.wait_s - life.begun.wait_s;
    const double evaluated_s = life.newest.times.evaluate_s - life.begun.times.evaluate_s;
    const double told_s = computed_s + waited_s + evaluated_s;
    if (!(told_s > 0) || !(computed_s > 0)) {
      sum.waiting_s += life.present_s;
      continue;
    }
    const double computing_s = life.present_s * std::min(1.0, computed_s / told_s);
    const auto samples = static_cast<double>(
        life.newest.samples - std::min(life.newest.samples, life.begun.samples));
    const double as_said_s = life.step_s > 0
                                 ? std::min(1.0, samples * life.step_s / computed_s) * computing_s
                                 : computing_s;
    sum.computing_s += as_said_s;
    sum.slower_s += computing_s - as_said_s;
    sum.waiting_s += life.present_s - computing_s;
  }
  return sum;
}

}  // namespace ps::run
