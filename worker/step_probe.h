#pragma once

#include <cstdint>
#include <vector>

#include "ps/base/time.h"

namespace ps::worker {

/// Times the passes of training steps: how long forward and backward take, and at which share of
/// the backward time each tensor's gradient is ready. All figures are sums over many steps, divided
/// at the end. Every step has its own zero, so nothing is carried from one tensor or step to the
/// next. Thread: one at a time.
class StepProbe {
 public:
  /// The first `left_out` steps do not count: they warm caches up and take memory.
  StepProbe(size_t tensors, uint64_t left_out) : left_out_(left_out), ready_s_(tensors) {}

  /// A step of so many samples begins. One that has not ended is forgotten.
  void Begin(uint64_t samples, TimePoint now);
  /// A forward pass begins or is done. What is not forward is backward, but for what comes before
  /// the first forward pass is done, all of which is forward: no gradient is under way.
  void OnForward(bool is_done, TimePoint now);
  void OnReady(uint32_t tensor, TimePoint now);
  /// The step counts, if forward was seen. Only steps of the largest minibatch do: the last one of
  /// an epoch may be shorter.
  void End(TimePoint now);

  struct Figures {
    uint64_t steps = 0;  // 0: nothing was measured, and the rest is empty
    uint64_t samples = 0;
    double forward_s = 0;
    double backward_s = 0;
    std::vector<double> ready = {};  // by tensor, share of the backward time
  };

  Figures figures() const;

 private:
  /// The step under way.
  struct Step {
    uint64_t samples = 0;  // 0: there is none
    TimePoint begin{};
    TimePoint forward_begin{};
    double forward_s = 0;
    bool has_forward = false;
    std::vector<double> ready_s = {};  // by tensor, backward time until then
  };

  double BackwardSeconds(TimePoint now) const;

  uint64_t left_out_;
  Step step_;
  // Sums over steps of samples_ samples.
  uint64_t samples_ = 0;
  uint64_t steps_ = 0;
  double forward_s_ = 0;
  double backward_s_ = 0;
  std::vector<double> ready_s_;
};

}  // namespace ps::worker
