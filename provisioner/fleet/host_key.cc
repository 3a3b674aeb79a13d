#include "provisioner/fleet/host_key.h"

#include <chrono>

#include "provisioner/fleet/agent_process.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"

namespace ps::provisioner {
namespace {

constexpr size_t kKeyBytesMax = size_t{16} << 10;
constexpr Duration kMakingMax = std::chrono::seconds(30);

}  // namespace

std::string KnownHostsIn(const std::string& folder) {
  return folder + "/known_hosts";
}

Result<HostKey> HostKeyIn(const std::string& folder) {
  const std::string path = folder + "/host_key";
  Result<std::string> secret = ReadSmallFile(path, kKeyBytesMax);
  if (!secret.ok() && secret.status().code() == StatusCode::kNotFound) {
    PS_TRY(CreateDirectories(folder));
    PS_TRY(RunCommand(
               {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "spotps", "-f", path},
               "",
               kMakingMax)
               .status());
    secret = ReadSmallFile(path, kKeyBytesMax);
  }
  HostKey key;
  PS_ASSIGN(key.secret, std::move(secret));
  PS_ASSIGN(key.open, ReadSmallFile(path + ".pub", kKeyBytesMax));
  PS_TRY(WriteFileAtomically(KnownHostsIn(folder), "* " + key.open + "\n", 0600));
  return key;
}

}  // namespace ps::provisioner
