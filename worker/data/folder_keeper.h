#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace ps::worker {

/// Shows those who wait for a folder that somebody works on it, by its time: once a moment, if
/// `is_alive` says so, which a thread of its own asks. Until its end.
class FolderKeeper {
 public:
  FolderKeeper(std::string folder, std::function<bool()> is_alive);
  ~FolderKeeper();

  FolderKeeper(const FolderKeeper&) = delete;
  FolderKeeper& operator=(const FolderKeeper&) = delete;

 private:
  void Run();

  const std::string folder_;
  const std::function<bool()> is_alive_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace ps::worker
