#include "provisioner/claims/transient_laws.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "provisioner/planner/numbers.h"

namespace ps::provisioner {

double SecondsToSteps(double steps, std::span<const WorkerSpan> spans) {
  std::vector<double> changes = {0};
  for (const WorkerSpan& span : spans) {
    changes.push_back(span.from_s);
    changes.push_back(span.to_s);
  }
  std::ranges::sort(changes);
  double left = steps;
  for (size_t i = 0; i < changes.size() && std::isfinite(changes[i]); ++i) {
    const double end_s = i + 1 < changes.size() ? changes[i + 1] : kInfinity;
    double steps_per_s = 0;
    for (const WorkerSpan& span : spans) {
      if (span.from_s <= changes[i] && changes[i] < span.to_s) {
        steps_per_s += span.steps_per_s;
      }
    }
    if (steps_per_s > 0 && left <= steps_per_s * (end_s - changes[i])) {
      return changes[i] + left / steps_per_s;
    }
    left -= steps_per_s > 0 ? steps_per_s * (end_s - changes[i]) : 0;
  }
  return kInfinity;
}

double SecondsWithRevocations(
    int workers, double seconds_alone, std::span<const double> revoked_at_s) {
  std::vector<WorkerSpan> spans;
  for (int worker = 0; worker < workers; ++worker) {
    const auto index = static_cast<size_t>(worker);
    spans.push_back({0, index < revoked_at_s.size() ? revoked_at_s[index] : kInfinity, 1});
  }
  return SecondsToSteps(workers * seconds_alone, spans);
}

double UsdOf(std::span<const MachineUse> machines) {
  double usd = 0;
  for (const MachineUse& machine : machines) {
    usd += machine.seconds * machine.usd_per_s;
  }
  return usd;
}

double ClusterStepsPerSecond(
    std::span<const double> worker_steps_per_s, double server_steps_per_s) {
  const double sum = std::accumulate(worker_steps_per_s.begin(), worker_steps_per_s.end(), 0.0);
  return std::min(sum, server_steps_per_s);
}

double StepSecondsOf(const StepTimeFit& fit, double gflops, double tensors) {
  return fit.constant_s + fit.s_per_gflop * gflops + fit.s_per_tensor * tensors;
}

const StepTimeFit* StepTimeOf(const std::string& device) {
  static const StepTimeFit kK80 = {0.02451, 0.05416, 0.001001};
  static const StepTimeFit kP100 = {0.01052, 0.01765, 0.000468};
  if (device == "K80") {
    return &kK80;
  }
  return device == "P100" ? &kP100 : nullptr;
}

double CheckpointSecondsOf(double megabytes) {
  return 3.7512 + 0.020006 * megabytes;
}

double ComposedSeconds(const ComposedRun& run) {
  const double steps_per_s =
      std::accumulate(run.worker_steps_per_s.begin(), run.worker_steps_per_s.end(), 0.0);
  if (!(steps_per_s > 0)) {
    return kInfinity;
  }
  const double checkpoints =
      run.checkpoint_interval_steps > 0 ? std::ceil(run.steps / run.checkpoint_interval_steps) : 0;
  return run.steps / steps_per_s + checkpoints * run.checkpoint_s +
         run.revocations * run.replacement_s;
}

}  // namespace ps::provisioner
