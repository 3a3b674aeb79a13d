#include "ps/base/durable_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "ps/base/file.h"
#include "ps/base/unique_fd.h"

namespace ps {
namespace {

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

Status SyncDirectory(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) {
    // Who may create files in a directory need not be allowed to list it.
    return errno == EACCES ? Status::Ok() : IoError("cannot sync the directory", path);
  }
  if (::fsync(fd.get()) != 0 && errno != EINVAL) {  // EINVAL: its file system has no such thing
    return IoError("cannot sync the directory", path);
  }
  return Status::Ok();
}

Status CreateDirectories(const std::string& path) {
  std::error_code error;
  if (path.empty() || std::filesystem::is_directory(path, error)) {
    return Status::Ok();
  }
  const std::string parent = ParentOf(path);
  if (parent != path) {  // "/" is its own
    PS_TRY(CreateDirectories(parent));
  }
  if (!std::filesystem::create_directory(path, error) && error) {
    return Status::Io(fmt::format("cannot create the directory {}: {}", path, error.message()));
  }
  return SyncDirectory(parent);
}

Status CheckReplaceable(const std::string& path) {
  struct stat info {};

  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return Status::InvalidArgument(fmt::format(
        "{} is no regular file, and what is written would take its place; name a file, or one that "
        "is not there yet",
        path));
  }
  return Status::Ok();
}

Status MoveIntoPlace(const std::string& draft, const std::string& path) {
  struct stat info {};

  if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    PS_TRY(CheckReplaceable(path));  // of a directory rename itself takes an empty one alone
  }
  if (::rename(draft.c_str(), path.c_str()) != 0) {
    return IoError("cannot write", path);
  }
  return SyncDirectory(ParentOf(path));
}

}  // namespace ps
