#pragma once

#include <memory>

#include "provisioner/provider/provider.h"
#include "ps/base/status.h"
#include "ps/http/http.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

/// Whether any of the request's pools could be rented, by what the provider says beforehand. What
/// it does not tell is no reason. Errors: kInvalidArgument, with everything that is wrong.
Status CheckRental(Provider* provider, const RentRequest& request);

/// The one that a job rents from, with the credentials of this environment. Errors:
/// kInvalidArgument (no credentials: what to do), kUnavailable. Requires:
/// IsRented(launch.launcher).
Result<std::unique_ptr<Provider>> OpenProvider(
    const proto::LaunchConfig& launch, IsCancelled is_cancelled);

}  // namespace ps::provisioner
