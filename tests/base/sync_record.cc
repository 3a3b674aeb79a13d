#include "tests/base/sync_record.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

namespace ps {
namespace {

struct Record {
  std::mutex mutex;
  std::vector<std::string> paths;
};

Record& TheRecord() {
  static Record record;
  return record;
}

}  // namespace

std::vector<std::string> Synced() {
  const std::lock_guard lock(TheRecord().mutex);
  return TheRecord().paths;
}

void ForgetSynced() {
  const std::lock_guard lock(TheRecord().mutex);
  TheRecord().paths.clear();
}

}  // namespace ps

/// In place of the C library's.
extern "C" int fsync(int fd) {
  std::error_code error;
  std::string path =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error).string();
  {
    const std::lock_guard lock(ps::TheRecord().mutex);
    ps::TheRecord().paths.push_back(std::move(path));
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
