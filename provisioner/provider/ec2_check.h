#pragma once

#include <vector>

#include "provisioner/provider/aws_client.h"
#include "provisioner/provider/ec2_forms.h"
#include "provisioner/provider/provider.h"

namespace ps::provisioner {

/// Provider::Check of EC2: keys, image, network, types in zones, permissions and quotas, a call or
/// two each. Without keys that are taken, the first line is the only one.
std::vector<CheckLine> CheckEc2(
    const RentRequest& request, const Ec2Facts& facts, AwsClient* client);

}  // namespace ps::provisioner
