#pragma once

#include <cstddef>
#include <cstdint>

#include "ps/proto/job_config.h"

namespace ps::server {

/// What train.lr_policy multiplies the scheduled learning rate with. A value: same steps, same
/// factors. With one worker, as with kFixed, the factor is exactly 1, whatever the policy.
class LrPolicy {
 public:
  LrPolicy() = default;
  explicit LrPolicy(const proto::JobConfig& config);

  /// Of a step that is made now, `workers` taking part.
  double Factor(size_t workers) const;

  /// Of a push whose parameters had got `missed_steps` steps since its worker read them.
  double FactorOf(size_t workers, uint64_t missed_steps) const;

  /// The step was made: the next one goes on from its factor.
  void OnStep(size_t workers) { factor_ = Factor(workers); }

  /// Between steps, to be saved: 0 before the first step.
  double state() const { return factor_; }

  void Restore(double state) { factor_ = state; }

  /// Answers to a worker's pulls behind the one that its pushes were computed from.
  size_t answers_behind() const { return answers_behind_; }

 private:
  double Target(size_t workers) const;

  proto::LrPolicy kind_ = proto::LrPolicy::kFixed;
  double reference_workers_ = 1;  // linear: the factor is 1 with so many
  double change_max_ = 0;         // of the factor in a step, as a factor; 0: any
  size_t answers_behind_ = 0;
  double factor_ = 0;
};

}  // namespace ps::server
