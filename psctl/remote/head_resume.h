#pragma once

#include <optional>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "psctl/remote/remote_run.h"
#include "run/directory/coordinator_order.h"
#include "run/directory/run_registry.h"

namespace ps::psctl {

/// A run that was on a rented machine, and is to go on on another.
struct HeadResume {
  proto::JobConfig config;  // as it was here, with what the order changes
  RemoteRun::Beginning beginning;
  std::string found;  // for people: what it goes on from
};

/// Nothing: what the order names is no run that was on a rented machine. Errors: kUnavailable (it
/// still is on one), kNotFound (nothing is left to go on from), those of proto::LoadJobConfig and
/// run::FindNewestCheckpoint.
Result<std::optional<HeadResume>> HeadResumeOf(
    const run::ResumeOrder& order, const run::RunRegistry& registry);

}  // namespace ps::psctl
