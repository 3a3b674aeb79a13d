#include "provisioner/rental/open_provider.h"

#include <utility>

#include "provisioner/provider/ec2.h"
#include "provisioner/provider/gce.h"
#include "ps/base/check.h"
#include "ps/process/environment.h"

namespace ps::provisioner {

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
