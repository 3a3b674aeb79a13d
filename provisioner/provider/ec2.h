#pragma once

#include <memory>
#include <string>

#include "provisioner/provider/aws_client.h"
#include "provisioner/provider/provider.h"
#include "ps/base/status.h"
#include "ps/http/http.h"
#include "ps/process/environment.h"

namespace ps::provisioner {

using Ec2Options = AwsOptions;

/// Amazon's EC2. A setup's launch template is made before its first machine and stays for the next
/// ones; Tidy removes it. `run_max` of a setup is not kept by EC2: the machine has to end itself,
/// which ends it for good. Prices are those of spot, and those of the list on demand (of Linux,
/// without what an account has agreed on).
/// Requires: `region` is not empty.
std::unique_ptr<Provider> MakeEc2Provider(Ec2Options options);

/// With the keys that other programs of AWS find in this environment. An empty region or endpoint
/// comes from there too. Errors: kInvalidArgument (no keys: what to do); kUnavailable.
Result<std::unique_ptr<Provider>> OpenEc2Provider(
    const Environment& environment,
    const std::string& region,
    const std::string& endpoint,
    IsCancelled is_cancelled);

}  // namespace ps::provisioner
