#pragma once

#include <memory>

#include "provisioner/provider/provider.h"
#include "ps/base/status.h"
#include "ps/http/http.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

/// The one that a job rents from, with the credentials of this environment. Errors:
/// kInvalidArgument (no credentials: what to do), kUnavailable. Requires:
/// IsRented(launch.launcher).
Result<std::unique_ptr<Provider>> OpenProvider(
    const proto::LaunchConfig& launch, IsCancelled is_cancelled);

}  // namespace ps::provisioner
