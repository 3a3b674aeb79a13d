#include "provisioner/rental/open_provider.h"

#include <algorithm>
#include <string>
#include <utility>

#include "provisioner/provider/ec2.h"
#include "provisioner/provider/gce.h"
#include "ps/base/check.h"
#include "ps/process/environment.h"

namespace ps::provisioner {

Status CheckRental(Provider* provider, const RentRequest& request) {
  std::string wrong;
  size_t pools = 0;
  std::string wrong_pools;
  for (const CheckLine& line : provider->Check(request)) {
    const CallFault fault = line.end.fault;
    // Who may not look, of a quota for example, may rent all the same.
    const bool is_told = fault == CallFault::kCredentials || fault == CallFault::kRefused ||
                         fault == CallFault::kQuota ||
                         (fault == CallFault::kDenied && line.what.starts_with("permission "));
    if (!is_told) {
      continue;
    }
    const bool is_pool = std::ranges::any_of(
        request.pools, [&](const Pool& pool) { return PoolText(pool) == line.what; });
    pools += is_pool ? 1 : 0;
    std::string* const text = is_pool ? &wrong_pools : &wrong;
    *text += (text->empty() ? "" : "; ") + line.what + ": " + line.end.message;
  }
  if (pools >= request.pools.size()) {
    wrong += (wrong.empty() ? "" : "; ") + wrong_pools;
  }
  return wrong.empty() ? Status::Ok()
                       : Status::InvalidArgument("no machine can be rented: " + wrong);
}

Result<std::unique_ptr<Provider>> OpenProvider(
    const proto::LaunchConfig& launch, IsCancelled is_cancelled) {
  PS_CHECK(proto::IsRented(launch.launcher));
  const proto::RentConfig& rent = launch.rent;
  switch (launch.launcher) {
    case proto::LauncherKind::kEc2:
      return OpenEc2Provider(
          ProcessEnvironment(), rent.region, rent.endpoint, std::move(is_cancelled));
    default:
      return OpenGceProvider(
          ProcessEnvironment(), rent.project, rent.endpoint, std::move(is_cancelled));
  }
}

}  // namespace ps::provisioner
