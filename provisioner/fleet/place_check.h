#pragma once

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/job_config.h"

namespace ps::provisioner {

/// For servers of the job that run elsewhere, before any is started: that ssh gets to each of
/// servers.hosts and that it has this machine's folder of checkpoints, or that Slurm would take
/// such a job. Each place has `limit` to answer. Errors: kUnavailable, which says what to do.
Status CheckServerPlaces(const proto::JobConfig& config, Duration limit);

}  // namespace ps::provisioner
