#include "ps/base/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ps/base/durable_file.h"
#include "ps/base/unique_fd.h"

namespace ps {

Status IoError(const std::string& what, const std::string& path) {
  return Status::Io(fmt::format("{} {}: {}", what, path, std::strerror(errno)));
}

Status WriteAll(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return IoError("cannot write", path);
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return Status::Ok();
}

Result<std::string> ReadFile(const std::string& path, size_t bytes_max) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) {
    return errno == ENOENT ? Status::NotFound(fmt::format("no file {}", path))
                           : IoError("cannot read", path);
  }
  std::string text;
  char part[16384];
  while (text.size() <= bytes_max) {
    const ssize_t n = ::read(fd.get(), part, sizeof(part));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return IoError("cannot read", path);
    }
    if (n == 0) {
      break;
    }
    text.append(part, static_cast<size_t>(n));
  }
  if (text.size() > bytes_max) {
    return Status::InvalidArgument(fmt::format("{} is larger than {} bytes", path, bytes_max));
  }
  return text;
}

Result<bool> IsThere(const std::string& path) {
  struct stat found {};

  if (::stat(path.c_str(), &found) == 0) {
    return true;
  }
  if (errno == ENOENT || errno == ENOTDIR) {
    return false;
  }
  return IoError("cannot look for", path);
}

Status WriteFileAtomically(const std::string& path, std::string_view text, unsigned mode) {
  const std::string draft = path + ".draft";
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
  UniqueFd fd(::open(draft.c_str(), kFlags, static_cast<mode_t>(mode)));
  if (!fd.is_open()) {
    return IoError("cannot write", draft);
  }
  Status status = ::fchmod(fd.get(), static_cast<mode_t>(mode)) == 0
                      ? WriteAll(fd.get(), text, draft)
                      : IoError("cannot chmod", draft);
  if (status.ok() && ::fsync(fd.get()) != 0 && errno != EINVAL) {
    status = IoError("cannot sync", draft);
  }
  fd.Reset();
  if (status.ok()) {
    status = MoveIntoPlace(draft, path);
  }
  if (!status.ok()) {
    ::unlink(draft.c_str());
  }
  return status;
}

Result<std::string> ReadSmallFile(const std::string& path, size_t bytes_max) {
  PS_ASSIGN(std::string text, ReadFile(path, bytes_max));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.pop_back();
  }
  return text;
}

}  // namespace ps
