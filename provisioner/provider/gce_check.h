#pragma once

#include <string>
#include <vector>

#include "provisioner/provider/gce_client.h"
#include "provisioner/provider/provider.h"

namespace ps::provisioner {

/// All that the provider's calls need; `gce_role.yaml` of configs/cloud grants these.
const std::vector<std::string>& GcePermissions();

/// Provider::Check of Compute Engine. Without a token that is taken, the first line is the only
/// one.
std::vector<CheckLine> CheckGce(const RentRequest& request, GceClient* client);

}  // namespace ps::provisioner
