#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ps/proto/files/profile.h"
#include "ps/proto/job/job_config.h"

namespace ps::run {

/// Adds to `profile` what a worker of `group` says in its log of the passes that it has timed
/// (ps_worker --probe-after); of a worker that ran twice, the last. Lines that say nothing of it,
/// and figures that no profile can hold, are passed over. Takes any bytes.
void AddProbe(std::string_view log, const proto::WorkerGroup& group, proto::JobProfile* profile);

/// The same of all workers whose logs are in the folder, the first one of a type and minibatch; of
/// a lone worker also its link. `seats[i]` is the group of seat i.
void AddProbes(
    const std::string& folder,
    std::span<const proto::WorkerGroup> seats,
    proto::JobProfile* profile);

}  // namespace ps::run
