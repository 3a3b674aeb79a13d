#pragma once

#include <string>

#include "provisioner/rental/machine_script.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// The keys of a run's rented machines, from `folder`, which gets them by `ssh-keygen` when it has
/// none. It also gets a file by which ssh takes no other host. Errors: kIo, kNotFound (no
/// ssh-keygen).
Result<MachineKeys> MachineKeysIn(const std::string& folder);

/// The path of that file, and of the secret key that machines let in.
std::string KnownHostsIn(const std::string& folder);
std::string LoginKeyIn(const std::string& folder);

}  // namespace ps::provisioner
