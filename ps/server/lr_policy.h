#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ps/proto/job/job_config.h"
#include "ps/proto/job/optimizer_rules.h"

namespace ps::server {

/// What train.lr_policy multiplies the scheduled learning rate with, and what a mode of the other
/// kind than the job's does. A value: same steps, same factors. With one worker, as with kFixed,
/// the policy's factor is exactly 1.
class LrPolicy {
 public:
  LrPolicy() = default;
  explicit LrPolicy(const proto::JobConfig& config);

  /// The factor of a step that `workers` make now, in `mode`.
  double Factor(proto::Mode mode, size_t workers) const {
    return ModeFactor(mode) * FleetFactor(workers) * RuleOf(mode, workers).lr_factor;
  }

  /// The factor of a push whose parameters had got `missed_steps` since its worker read them.
  double FactorOf(proto::Mode mode, size_t workers, uint64_t missed_steps) const;

  /// The factor of the optimizer's momentum, above 0.
  float MomentumFactor(proto::Mode mode, size_t workers) const;

  /// delayed_nesterov: updates from one use of the momentum to the next, where they follow the
  /// workers that are there; 0: as the config has it.
  uint32_t EveryOf(proto::Mode mode, size_t workers) const {
    const bool is_live = is_every_live_ && mode != proto::Mode::kBsp;
    return is_live ? static_cast<uint32_t>(std::max<size_t>(workers, 1)) : 0;
  }

  bool is_every_live() const { return is_every_live_; }

  /// A step was made with `workers`: a ramp goes on from its factor.
  void OnStep(size_t workers) { factor_ = FleetFactor(workers); }

  /// What has to be remembered between two steps; 0 before the first one.
  double state() const { return factor_; }

  void Restore(double state) { factor_ = state; }

  /// A push is computed from the answer to the pull so many pulls before the worker's newest one.
  size_t answers_behind(proto::Mode mode) const {
    return mode == proto::Mode::kAsync ? answers_behind_ : 0;
  }

 private:
  /// What kLive makes of rate and momentum, and kListed of the rate; the other policies and bsp
  /// change nothing.
  proto::AgedRule RuleOf(proto::Mode mode, size_t workers) const;
  double Target(size_t workers) const;
  double FleetFactor(size_t workers) const;

  /// Whether exactly one of the job's mode and this mode is bsp.
  bool IsOther(proto::Mode mode) const {
    return (mode == proto::Mode::kBsp) != (mode_ == proto::Mode::kBsp);
  }

  double ModeFactor(proto::Mode mode) const { return IsOther(mode) ? other_factor_ : 1; }

  proto::LrPolicy kind_ = proto::LrPolicy::kFixed;
  proto::Mode mode_ = proto::Mode::kAsync;  // that the job's learning rate is of
  double other_factor_ = 1;
  float momentum_factor_ = 1;     // in it
  float momentum_ = 0;            // the servers' optimizer's
  double reference_workers_ = 1;  // linear, listed: the factor is 1 with so many
  double change_max_ = 0;         // of the factor in a step, as a factor; 0: any
  bool is_every_live_ = false;    // of delayed_nesterov
  bool is_nobody_listed_ = true;  // listed: the factor is 1 then
  size_t answers_behind_ = 0;
  double factor_ = 0;
};

}  // namespace ps::server
