#include "run/directory/files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "ps/base/file.h"

namespace ps::run {

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  return error ? path : absolute.string();
}

std::string BaseName(const std::string& path) {
  std::string_view rest = path;
  while (rest.size() > 1 && rest.back() == '/') {
    rest.remove_suffix(1);
  }
  const size_t slash = rest.rfind('/');
  return std::string(slash == std::string_view::npos ? rest : rest.substr(slash + 1));
}

std::string ProgramDirectory() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

Result<FileLock> FileLock::Take(const std::string& path, std::string_view text) {
  FileLock lock(UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)));
  if (!lock.fd_.is_open()) {
    return IoError("cannot write", path);
  }
  if (::flock(lock.fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK
               ? Status::Unavailable(fmt::format("{} is held by another process", path))
               : IoError("cannot lock", path);
  }
  PS_TRY(lock.Rewrite(text, path));
  return lock;
}

Status FileLock::Rewrite(std::string_view text, const std::string& path) const {
  if (::ftruncate(fd_.get(), 0) != 0 || ::lseek(fd_.get(), 0, SEEK_SET) != 0) {
    return IoError("cannot write", path);
  }
  return WriteAll(fd_.get(), text, path);
}

Result<FileLock> FileLock::WaitForFolderOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  FileLock lock(UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  if (!lock.fd_.is_open()) {
    return IoError("cannot write", path);
  }
  while (::flock(lock.fd_.get(), LOCK_EX) != 0) {
    if (errno != EINTR) {
      return IoError("cannot lock", folder);
    }
  }
  return lock;
}

bool FileLock::IsHeld(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) {
    return false;
  }
  // Shared, so that two readers at the same time don't take each other for the holder.
  return ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool FileLock::StaysHeld(const std::string& path) {
  constexpr int kLooks = 50;
  constexpr int kLookMillis = 20;
  for (int look = 0; look < kLooks && IsHeld(path); ++look) {
    ::poll(nullptr, 0, kLookMillis);
  }
  return IsHeld(path);
}

}  // namespace ps::run
