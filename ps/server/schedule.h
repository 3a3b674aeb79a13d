#pragma once

#include "ps/proto/job_config.h"

namespace ps::server {

/// The learning rate when `fraction` of the job's samples is done. Fractions outside [0, 1] count
/// as the nearest end: samples that are done again after a loss may carry a shard's count over the
/// total.
float ScheduledLr(const proto::OptimizerConfig& config, double fraction);

}  // namespace ps::server
