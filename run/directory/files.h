#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "ps/base/status.h"
#include "ps/base/unique_fd.h"

namespace ps::run {

/// Absolute, without "." and ".."; the path itself when that can't be found out.
std::string AbsolutePath(const std::string& path);

/// The last component: "runs/a/" is "a".
std::string BaseName(const std::string& path);

/// Where this program lies, and ps_server and ps_worker beside it.
std::string ProgramDirectory();

/// A file held open with an exclusive lock that the system drops when the holder dies.
class FileLock {
 public:
  FileLock() = default;

  /// The lock of a descriptor that another process has shared.
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}

  /// Creates the file with `text` in it. Errors: kIo, kUnavailable (somebody holds it).
  static Result<FileLock> Take(const std::string& path, std::string_view text);
  /// Locks the folder that `path` lies in, for a process that replaces the file: waits until it is
  /// free. Errors: kIo.
  static Result<FileLock> WaitForFolderOf(const std::string& path);
  /// False as well when there is no such file.
  static bool IsHeld(const std::string& path);
  /// Somebody holds it and goes on doing so: a process that has just been killed is let come to
  /// its end, a second at most, for the system takes its locks away last of all.
  static bool StaysHeld(const std::string& path);

  /// What the file says from now on. Errors: kIo with `path`.
  Status Rewrite(std::string_view text, const std::string& path) const;

  /// To share the lock with another process: it is held until both are over.
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace ps::run
