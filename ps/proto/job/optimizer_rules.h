#pragma once

#include <cstddef>
#include <cstdint>

#include "ps/proto/job/job_config.h"

namespace ps::proto {

/// The workers that the job lists, at least 1: what some fields' 0 stands for.
uint32_t WorkersListed(const JobConfig& config);

/// The same; 0 when all of them come from elsewhere.
uint32_t WorkersAtStart(const JobConfig& config);

/// outer.kind, or what `auto` stands for. Never kAuto.
OuterKind OuterKindOf(const JobConfig& config);

/// The rule by which servers apply a push: the job's optimizer, with local steps the outer one. All
/// that 0 and `auto` stand for is filled in.
OptimizerConfig ServerOptimizer(const JobConfig& config);

/// The same of the rule by which a worker makes its local steps.
OptimizerConfig LocalOptimizer(const JobConfig& config);

/// train.lr_policy, or what `auto` stands for. Never kAuto.
LrPolicy LrPolicyOf(const JobConfig& config);

/// What is made of the job's settings where gradients are of values that are `steps` - 1 steps old.
struct AgedRule {
  double lr_factor = 1;
  float momentum = 0;
};

/// Whether the servers' rule is delayed_nesterov, and its `every` follows the workers that are
/// there.
bool HasLiveEvery(const JobConfig& config);

/// The workers that have the job's learning rate in `mode`: where more take part, the servers take
/// less of it (lr_policy `listed`). 0: however many do, nothing is taken.
uint32_t WorkersOfRate(const JobConfig& config, Mode mode);

/// The rule of lr_policy `live`. Steps that come one by one from many workers act like momentum of
/// 1
/// - 1/`steps` (Mitliagkas et al. 2016, "Asynchrony begets momentum"), which is taken from the
/// optimizer's; a gradient moves the parameters `1 / steps` times as far in all as it would at
/// once. Requires: steps at least 1, momentum in [0, 1).
AgedRule RuleOfAge(float momentum, size_t steps);

/// The learning rate when `fraction` of the job's samples is done. Fractions outside [0, 1] count
/// as the nearest end: samples that are done again after a loss may carry a shard's count over the
/// total.
float ScheduledLr(const OptimizerConfig& config, double fraction);

}  // namespace ps::proto
