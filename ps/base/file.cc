#include "ps/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ps {

Status IoError(const std::string& what, const std::string& path) {
  return Status::Io(what + " " + path + ": " + std::strerror(errno));
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
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return errno == ENOENT ? Status::NotFound("no file " + path) : IoError("cannot read", path);
  }
  std::string text;
  char part[16384];
  while (text.size() <= bytes_max) {
    const ssize_t n = ::read(fd, part, sizeof(part));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      const Status status = IoError("cannot read", path);
      ::close(fd);
      return status;
    }
    if (n == 0) {
      break;
    }
    text.append(part, static_cast<size_t>(n));
  }
  ::close(fd);
  if (text.size() > bytes_max) {
    return Status::InvalidArgument(
        path + " is larger than " + std::to_string(bytes_max) + " bytes");
  }
  return text;
}

Status WriteFileAtomically(const std::string& path, std::string_view text, unsigned mode) {
  const std::string draft = path + ".draft";
  const int fd =
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, static_cast<mode_t>(mode));
  if (fd < 0) {
    return IoError("cannot write", draft);
  }
  Status status = ::fchmod(fd, static_cast<mode_t>(mode)) == 0 ? WriteAll(fd, text, draft)
                                                               : IoError("cannot chmod", draft);
  ::close(fd);
  if (status.ok() && ::rename(draft.c_str(), path.c_str()) != 0) {
    status = IoError("cannot write", path);
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
