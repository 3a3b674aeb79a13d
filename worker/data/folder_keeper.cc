#include "worker/data/folder_keeper.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <utility>

namespace ps::worker {
namespace {

constexpr std::chrono::milliseconds kMoment(100);

}  // namespace

FolderKeeper::FolderKeeper(std::string folder, std::function<bool()> is_alive)
    : folder_(std::move(folder)), is_alive_(std::move(is_alive)), thread_([this] { Run(); }) {}

FolderKeeper::~FolderKeeper() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FolderKeeper::Run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kMoment, [this] { return is_over_; })) {
    if (is_alive_()) {
      (void)::utimensat(AT_FDCWD, folder_.c_str(), nullptr, 0);
    }
  }
}

}  // namespace ps::worker
