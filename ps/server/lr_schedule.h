#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ps/proto/job/optimizer_rules.h"
#include "ps/server/lr_policy.h"
#include "ps/server/shard_settings.h"

namespace ps::server {

/// The learning rate of each update: the job's schedule where its samples have come to, times the
/// policy's factor. Invariant: samples_done() and the state of policy() are all that it must
/// remember, so a shard that has them from another one, or from a checkpoint, goes on with the same
/// rates.
class LrSchedule {
 public:
  /// At the start of a job.
  void Begin(const ShardSettings& settings, uint64_t total_samples) {
    optimizer_ = settings.optimizer;
    policy_ = settings.lr_policy;
    reference_samples_ = settings.reference_samples;
    total_samples_ = total_samples;
    Restore(0, 0);
  }

  void Restore(uint64_t samples_done, double policy_state) {
    samples_done_ = samples_done;
    policy_.Restore(policy_state);
  }

  /// For a step that `workers` make together now, as bsp's are.
  double Rate(proto::Mode mode, size_t workers) const {
    return Scheduled() * policy_.Factor(mode, workers);
  }

  /// What a push stands for.
  struct PushSize {
    uint32_t samples = 0;
    uint32_t local_steps = 1;  // minibatches that the learning rate is for
  };

  /// async, ssp: for a push whose parameters had got `missed_steps` since they were read.
  float PushRate(proto::Mode mode, size_t workers, PushSize push, uint64_t missed_steps) const {
    const double reference = double{1} * reference_samples_ * push.local_steps;
    const double weight = push.samples / reference;
    return static_cast<float>(Scheduled() * weight * policy_.FactorOf(mode, workers, missed_steps));
  }

  /// The minibatches behind an observation of so many samples: fewer than the local steps of a step
  /// that has ended early or is an epoch's last.
  uint32_t ObservedSteps(PushSize push) const {
    const uint64_t minibatches =
        (uint64_t{push.samples} + reference_samples_ - 1) / reference_samples_;
    return static_cast<uint32_t>(
        std::clamp<uint64_t>(minibatches, 1, std::max(push.local_steps, 1U)));
  }

  /// The step was made: `samples` of the job are done with it.
  void Count(uint64_t samples, size_t workers) {
    samples_done_ += samples;
    if (workers > 0) {
      policy_.OnStep(workers);
    }
  }

  uint64_t samples_done() const { return samples_done_; }

  const LrPolicy& policy() const { return policy_; }

 private:
  double Scheduled() const {
    const double fraction = total_samples_ == 0 ? 0
                                                : static_cast<double>(samples_done_) /
                                                      static_cast<double>(total_samples_);
    return proto::ScheduledLr(optimizer_, fraction);
  }

  proto::OptimizerConfig optimizer_;
  LrPolicy policy_;
  uint32_t reference_samples_ = 1;
  uint64_t total_samples_ = 0;
  uint64_t samples_done_ = 0;
};

}  // namespace ps::server
