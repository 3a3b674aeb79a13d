#pragma once

#include <algorithm>
#include <cstdint>

#include "ps/base/time.h"
#include "ps/client/worker_host.h"
#include "ps/proto/messages.h"

namespace ps::client {

/// What a worker that computes nothing waits for.
enum class WaitingFor : uint8_t { kNothing, kPush, kPull, kOthers, kLease };

/// What a worker has done and how long it took: arithmetic, and waiting for it to begin.
class WorkTimes {
 public:
  /// The session begins, with counters at 0.
  void Begin(TimePoint now) {
    waiting_since_ = now;
    rate_since_ = now;
    entered_at_ = now;
  }

  void Reset() {
    counters_ = proto::WorkerStats();
    step_seconds_ = 0;
    rate_samples_ = 0;
    minibatches_ = 0;
    local_samples_ = 0;
    push_bytes_per_s_ = 0;
    waiting_for_ = WaitingFor::kNothing;
  }

  /// It waits for this from now on.
  void Enter(WaitingFor what, TimePoint now) {
    AddWait(now, &counters_.times);
    waiting_for_ = what;
    entered_at_ = now;
  }

  /// The counters, with what is waited for now.
  proto::WorkerStats At(TimePoint now) const {
    proto::WorkerStats stats = counters_;
    AddWait(now, &stats.times);
    return stats;
  }

  /// Arithmetic is given to the host.
  void OnTask(TimePoint now) {
    counters_.wait_s += Seconds(now - waiting_since_);
    task_since_ = now;
  }

  /// It is over. It counts as if it had begun at once: the way to its thread and back is waiting.
  void OnTaskDone(const ComputeResult& result, TimePoint now) {
    waiting_since_ = std::min(now, task_since_ + FromSeconds(result.seconds));
  }

  /// It was a step.
  void OnStepDone(const ComputeResult& result) {
    counters_.compute_s += result.seconds;
    counters_.times.held_back = result.held_back;
    step_seconds_ =
        step_seconds_ == 0 ? result.seconds : 0.8 * step_seconds_ + 0.2 * result.seconds;
  }

  /// It was one of the local steps of a task that goes on.
  void OnLocalStep(uint32_t samples) {
    ++minibatches_;
    local_samples_ += samples;
  }

  /// A push of so many bytes was answered, this long after its first frame.
  void OnPushed(uint64_t bytes, Duration took) {
    const double rate = static_cast<double>(bytes) / std::max(Seconds(took), 1e-6);
    push_bytes_per_s_ = push_bytes_per_s_ == 0 ? rate : 0.8 * push_bytes_per_s_ + 0.2 * rate;
  }

  /// Smoothed; 0: not known. Less than the link can where frames wait for arithmetic.
  double push_bytes_per_s() const { return push_bytes_per_s_; }

  uint64_t minibatches() const { return minibatches_; }

  /// How long a step's arithmetic takes, smoothed.
  double step_seconds() const { return step_seconds_; }

  TimePoint waiting_since() const { return waiting_since_; }

  /// The rate since the last look that is at least a second ago.
  void UpdateRate(TimePoint now) {
    const double window = Seconds(now - rate_since_);
    if (window >= 1.0) {
      // With local steps pushes are rare.
      const uint64_t samples = minibatches_ > 0 ? local_samples_ : counters_.samples;
      counters_.samples_per_s = static_cast<double>(samples - rate_samples_) / window;
      rate_samples_ = samples;
      rate_since_ = now;
    }
  }

  void OnEvaluated(const ComputeResult& result) { counters_.times.evaluate_s += result.seconds; }

  proto::WorkerStats& counters() { return counters_; }

 private:
  void AddWait(TimePoint now, proto::WorkerTimes* times) const {
    const double seconds = Seconds(now - entered_at_);
    switch (waiting_for_) {
      case WaitingFor::kPush:
        times->push_s += seconds;
        break;
      case WaitingFor::kPull:
        times->pull_s += seconds;
        break;
      case WaitingFor::kOthers:
        times->others_s += seconds;
        break;
      case WaitingFor::kLease:
        times->lease_s += seconds;
        break;
      case WaitingFor::kNothing:
        break;
    }
  }

  proto::WorkerStats counters_;
  uint64_t minibatches_ = 0;    // of local steps
  uint64_t local_samples_ = 0;  // in them
  TimePoint task_since_{};
  TimePoint waiting_since_{};  // arithmetic last ended
  double step_seconds_ = 0;
  double push_bytes_per_s_ = 0;
  TimePoint rate_since_{};
  uint64_t rate_samples_ = 0;
  WaitingFor waiting_for_ = WaitingFor::kNothing;
  TimePoint entered_at_{};
};

}  // namespace ps::client
