#pragma once

#include <string>

#include "provisioner/provider/provider.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// Whether any of the request's pools could be rented, by what the provider says beforehand. What
/// it does not tell is no reason. Returns why some of them can't; empty: nothing speaks against
/// any. Errors: kInvalidArgument, with everything that is wrong.
Result<std::string> CheckRental(Provider* provider, const RentRequest& request);

}  // namespace ps::provisioner
