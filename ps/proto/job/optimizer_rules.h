#pragma once

#include <cstdint>

#include "ps/proto/job/job_config.h"

namespace ps::proto {

/// The workers that the job lists, at least 1: what some fields' 0 stands for.
uint32_t WorkersListed(const JobConfig& config);

/// outer.kind, or what `auto` stands for. Never kAuto.
OuterKind OuterKindOf(const JobConfig& config);

/// The rule by which servers apply a push: the job's optimizer, with local steps the outer one. All
/// that 0 and `auto` stand for is filled in.
OptimizerConfig ServerOptimizer(const JobConfig& config);

/// The same of the rule by which a worker makes its local steps.
OptimizerConfig LocalOptimizer(const JobConfig& config);

/// The learning rate when `fraction` of the job's samples is done. Fractions outside [0, 1] count
/// as the nearest end: samples that are done again after a loss may carry a shard's count over the
/// total.
float ScheduledLr(const OptimizerConfig& config, double fraction);

}  // namespace ps::proto
