#include "tests/provisioner/model/link_simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

constexpr double kDone = 1e-12;

/// What is left of a worker's step, in seconds as they would be alone.
struct Step {
  double compute_s = 0;
  double push_s = 0;
  double pull_s = 0;
  bool has_begun_push = false;
  bool has_begun_pull = false;

  bool IsPushing(bool has_overlap) const {
    return push_s > kDone && (has_overlap || compute_s <= kDone);
  }

  bool IsPulling(bool has_overlap) const {
    return pull_s > kDone && (has_overlap || (compute_s <= kDone && push_s <= kDone));
  }

  bool IsDone() const { return std::max({compute_s, push_s, pull_s}) <= kDone; }
};

/// A transfer takes what the bucket holds when it begins.
void Begin(bool is_moving, double* bucket_s, double* left_s, bool* has_begun) {
  if (is_moving && !*has_begun) {
    *has_begun = true;
    const double at_once_s = std::min(*bucket_s, *left_s);
    *bucket_s -= at_once_s;
    *left_s -= at_once_s;
  }
}

}  // namespace

double SimulateLinks(const LinkSimulation& simulation, double until_s) {
  Random random(simulation.seed);
  const auto next_step = [&](size_t i) {
    const double spread = simulation.deviation * std::sqrt(12.0) * (random.Unit() - 0.5);
    return Step{.compute_s = simulation.compute_s[i] * (1 + spread), .push_s = 1, .pull_s = 1};
  };
  std::vector<Step> workers(simulation.compute_s.size());
  for (size_t i = 0; i < workers.size(); ++i) {
    workers[i] = next_step(i);
    workers[i].compute_s *= random.Unit();
  }
  const bool overlap = simulation.has_overlap;
  double now_s = 0;
  int steps = 0;
  double push_bucket_s = simulation.burst_s;
  double pull_bucket_s = simulation.burst_s;
  while (now_s < until_s) {
    double pushing = 0;
    double pulling = 0;
    for (Step& step : workers) {
      Begin(step.IsPushing(overlap), &push_bucket_s, &step.push_s, &step.has_begun_push);
      Begin(step.IsPulling(overlap), &pull_bucket_s, &step.pull_s, &step.has_begun_pull);
      pushing += step.IsPushing(overlap) ? 1 : 0;
      pulling += step.IsPulling(overlap) ? 1 : 0;
    }
    double passed_s = std::numeric_limits<double>::infinity();
    for (const Step& step : workers) {
      passed_s = step.compute_s > kDone ? std::min(passed_s, step.compute_s) : passed_s;
      passed_s = step.IsPushing(overlap) ? std::min(passed_s, step.push_s * pushing) : passed_s;
      passed_s = step.IsPulling(overlap) ? std::min(passed_s, step.pull_s * pulling) : passed_s;
    }
    now_s += passed_s;
    push_bucket_s = std::min(simulation.burst_s, push_bucket_s + (pushing > 0 ? 0 : passed_s));
    pull_bucket_s = std::min(simulation.burst_s, pull_bucket_s + (pulling > 0 ? 0 : passed_s));
    for (size_t i = 0; i < workers.size(); ++i) {
      Step& step = workers[i];
      const Step before = step;
      step.compute_s -= before.compute_s > kDone ? passed_s : 0;
      step.push_s -= before.IsPushing(overlap) ? passed_s / pushing : 0;
      step.pull_s -= before.IsPulling(overlap) ? passed_s / pulling : 0;
      if (step.IsDone()) {
        ++steps;
        step = next_step(i);
      }
    }
  }
  return steps / now_s;
}

}  // namespace ps::provisioner
