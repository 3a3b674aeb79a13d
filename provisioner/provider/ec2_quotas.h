#pragma once

#include <vector>

#include "provisioner/provider/aws_client.h"
#include "provisioner/provider/provider.h"

namespace ps::provisioner {

/// The account's quotas that machines of these pools count for, a line each or two: for the pools
/// whose machines fit beside those that the account has, and for those of which not even one does.
/// Requires: EC2 has all the types.
std::vector<CheckLine> CheckEc2Quotas(const std::vector<Pool>& pools, AwsClient* client);

}  // namespace ps::provisioner
