#pragma once

#include <memory>
#include <string>
#include <vector>

#include "provisioner/provider/provider.h"
#include "ps/base/time.h"

namespace ps::provisioner {

struct StaticHost {
  std::string address;
  Pool pool;
};

/// Machines that are there anyway: a list of hosts, of which one is taken and given back. Who has
/// which is in this object alone, so a program that ends gives all of them back; a setup's image,
/// network, disk and user data are nobody's here, and are not looked at. Errors of Check: a pool
/// that no host is of.
std::unique_ptr<Provider> MakeStaticProvider(
    std::vector<StaticHost> hosts, const TimeSource* time = &SystemTime());

}  // namespace ps::provisioner
