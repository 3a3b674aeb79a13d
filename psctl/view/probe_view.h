#pragma once

#include <string>

#include "provisioner/model/overlap_check.h"
#include "ps/proto/files/profile.h"
#include "ps/proto/job/job_config.h"

namespace ps::psctl {

/// How the job's workers exchange, for the overlap model.
provisioner::ExchangeKind ExchangeKindOf(const proto::JobConfig& config);

/// What was timed of a job's steps and link, and what the overlap model and the queue make of it
/// beside the measured fleets of the profile. Where nothing was timed, a line that says so.
std::string RenderProbes(const proto::JobProfile& profile, provisioner::ExchangeKind kind);

}  // namespace ps::psctl
