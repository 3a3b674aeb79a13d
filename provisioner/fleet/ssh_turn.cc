#include "provisioner/fleet/ssh_turn.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <utility>

#include "provisioner/fleet/ssh_agent.h"

namespace ps::provisioner {

SshTurn::SshTurn(const std::string& folder, const std::string& host)
    : path_(fmt::format("{}/.ssh-{}", folder, ContentName(host))) {}

bool SshTurn::Take() {
  for (int number = 0; number < kSshOpeningMax; ++number) {
    const std::string path = fmt::format("{}.{}", path_, number);
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd.is_open()) {
      return true;
    }
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      lock_ = std::move(fd);
      return true;
    }
  }
  return false;
}

bool IsDropped(std::string_view errors) {
  return errors.find("exchange_identification:") != std::string_view::npos;
}

}  // namespace ps::provisioner
