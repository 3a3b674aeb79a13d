#include "provisioner/fleet/machine_keys.h"

#include <unistd.h>

#include <chrono>

#include "provisioner/fleet/agent_process.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"

namespace ps::provisioner {
namespace {

constexpr size_t kKeyBytesMax = size_t{16} << 10;
constexpr Duration kMakingMax = std::chrono::seconds(30);

std::string HostKeyIn(const std::string& folder) {
  return folder + "/host_key";
}

/// The public key of `path`, which is made when it is missing.
Result<std::string> KeyAt(const std::string& path) {
  Result<std::string> open = ReadSmallFile(path + ".pub", kKeyBytesMax);
  if (!open.ok() && open.status().code() == StatusCode::kNotFound) {
    ::unlink(path.c_str());  // of a process that was killed before it had made both
    PS_TRY(RunCommand(
               {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "spotps", "-f", path},
               "",
               kMakingMax)
               .status());
    open = ReadSmallFile(path + ".pub", kKeyBytesMax);
  }
  return open;
}

}  // namespace

std::string KnownHostsIn(const std::string& folder) {
  return folder + "/known_hosts";
}

std::string LoginKeyIn(const std::string& folder) {
  return folder + "/login_key";
}

Result<MachineKeys> MachineKeysIn(const std::string& folder) {
  PS_TRY(CreateDirectories(folder));
  MachineKeys keys;
  PS_ASSIGN(keys.host, KeyAt(HostKeyIn(folder)));
  PS_ASSIGN(keys.host_secret, ReadSmallFile(HostKeyIn(folder), kKeyBytesMax));
  PS_ASSIGN(keys.login, KeyAt(LoginKeyIn(folder)));
  PS_TRY(WriteFileAtomically(KnownHostsIn(folder), "* " + keys.host + "\n", 0600));
  return keys;
}

}  // namespace ps::provisioner
