#include "provisioner/fleet/local_process.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "ps/base/file.h"

namespace ps::provisioner {
namespace {

constexpr size_t kStatBytesMax = 4096;
/// Index of the start time among the fields behind the name, which may have blanks and brackets.
constexpr int kStartField = 19;

// The C library's declarations of these calls are not fit for C++ before its version 2.37.

UniqueFd PidfdOf(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

Status Over(int64_t pid) {
  return Status::NotFound(fmt::format("process {} is over", pid));
}

}  // namespace

Result<uint64_t> StartTicksOf(int64_t pid) {
  const Result<std::string> stat = ReadFile(fmt::format("/proc/{}/stat", pid), kStatBytesMax);
  const size_t name_end = stat.ok() ? stat->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) {
    return Over(pid);
  }
  std::string_view rest = std::string_view(*stat).substr(name_end + 1);
  for (int field = 0; field <= kStartField; ++field) {
    const size_t blank = rest.find(' ');
    rest.remove_prefix(blank == std::string_view::npos ? rest.size() : blank + 1);
  }
  uint64_t ticks = 0;
  if (std::from_chars(rest.data(), rest.data() + rest.size(), ticks).ec != std::errc()) {
    return Over(pid);
  }
  return ticks;
}

std::string ArgumentOf(int64_t pid, std::string_view name) {
  const Result<std::string> words = ReadFile(fmt::format("/proc/{}/cmdline", pid));
  std::string_view rest = words.ok() ? std::string_view(*words) : std::string_view();
  bool is_next = false;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find('\0'));
    if (is_next) {
      return std::string(word);
    }
    is_next = word == name;
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  return "";
}

Result<UniqueFd> OpenProcess(int64_t pid, uint64_t start_ticks) {
  if (pid <= 0 || pid > std::numeric_limits<pid_t>::max()) {
    return Over(pid);
  }
  UniqueFd fd = PidfdOf(static_cast<pid_t>(pid));
  if (!fd.is_open()) {
    return errno == ESRCH
               ? Over(pid)
               : Status::Io(fmt::format("pidfd_open of {}: {}", pid, std::strerror(errno)));
  }
  // Read after the descriptor is open: it is of the process that is looked at, or of one before.
  const Result<uint64_t> ticks = StartTicksOf(pid);
  if (!ticks.ok() || *ticks != start_ticks || HasEnded(fd.get())) {
    return Over(pid);
  }
  return fd;
}

bool HasEnded(int pidfd) {
  pollfd poll = {.fd = pidfd, .events = POLLIN, .revents = 0};
  return ::poll(&poll, 1, 0) == 1;
}

bool KillProcess(int pidfd) {
  return ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0) == 0;
}

}  // namespace ps::provisioner
