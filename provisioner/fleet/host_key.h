#pragma once

#include <string>

#include "provisioner/rental/rent_settings.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// The key that the rented machines of a run show, from `folder`, which gets one by `ssh-keygen`
/// when it has none. It also gets "known_hosts", by which ssh takes no other key. Errors: kIo,
/// kNotFound (no ssh-keygen).
Result<HostKey> HostKeyIn(const std::string& folder);

/// The path of that file.
std::string KnownHostsIn(const std::string& folder);

}  // namespace ps::provisioner
