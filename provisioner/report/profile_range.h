#pragma once

#include <string>
#include <vector>

#include "ps/proto/profile.h"

namespace ps::provisioner {

/// In what a fleet of `workers` and the loss that it is to reach lie outside of what the profile's
/// curves saw, so that its steps are extrapolated: a line each. `loss` 0: none.
std::vector<std::string> BeyondProfile(const proto::JobProfile& profile, double loss, int workers);

}  // namespace ps::provisioner
