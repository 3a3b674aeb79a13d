#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ps/base/status.h"

namespace ps::provisioner {

/// The keys of a run's machines. Public ones are a line each: "ssh-ed25519 AAAA... comment".
struct MachineKeys {
  std::string host_secret;  // that machines show, so that no other can be taken for them: OpenSSH's
                            // private key file
  std::string host;         // its public one
  std::string login;        // the public one of who may log in
};

/// What a rented machine is to do at its first boot.
struct MachineBoot {
  uint32_t watch_min = 0;
  std::string_view setup;  // the job's own script; empty: none
  std::string user;        // as whom ssh gets in; made if there is none
  MachineKeys keys;
  bool keeps_disk = false;  // when it ends itself, for who comes for what is on it
};

/// What a rented machine runs as root at its first boot:
///  - It watches over itself: after `watch_min` minutes without a process of ours it shuts down.
///  - It runs the job's own script, and shuts down if that fails.
///  - It lets `keys.login` in as `user`, and shows `keys.host` to whoever comes by ssh. As nobody
///    else can, and only then, psctl gets in once all this is done.
/// Errors: kInvalidArgument: longer than a provider takes (16 KiB), which the job's script has to
/// be shorter for.
Result<std::string> MachineScript(const MachineBoot& boot);

}  // namespace ps::provisioner
