#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "ps/base/time.h"
#include "worker/data/load_progress.h"

namespace ps::run {

/// Says how far a data set is read or prepared while that takes long enough for somebody to wonder:
/// a line after `first`, then one every `each`, and one at the end if there were others.
class DataWatch {
 public:
  using Say = std::function<void(std::string_view)>;

  /// `name`: of the data, for people. `say` is called on a thread of its own.
  DataWatch(
      std::string name,
      Say say,
      Duration first = std::chrono::seconds(3),
      Duration each = std::chrono::seconds(10));
  ~DataWatch();

  DataWatch(const DataWatch&) = delete;
  DataWatch& operator=(const DataWatch&) = delete;

  worker::LoadProgress* progress() { return &progress_; }

 private:
  void Run();

  const std::string name_;
  const Say say_;
  const Duration first_;
  const Duration each_;
  worker::LoadProgress progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace ps::run
