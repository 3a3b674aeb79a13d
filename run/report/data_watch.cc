#include "run/report/data_watch.h"

#include <fmt/core.h>

#include <utility>

#include "ps/base/text.h"

namespace ps::run {

DataWatch::DataWatch(std::string name, Say say, Duration first, Duration each)
    : name_(std::move(name)), say_(std::move(say)), first_(first), each_(each) {
  thread_ = std::thread([this] { Run(); });
}

DataWatch::~DataWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DataWatch::Run() {
  const TimePoint begin = SystemTime().Now();
  const auto seconds = [begin] { return Seconds(SystemTime().Now() - begin); };
  bool was_told = false;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, was_told ? each_ : first_, [this] { return is_over_; })) {
    const double share = progress_.share();
    // Early on a guess would be far off.
    const std::string left =
        share < 0.02 ? ""
                     : fmt::format(", {} left", FormatDuration(seconds() * (1 - share) / share));
    const std::string trouble = progress_.trouble();
    say_(fmt::format(
        "data: reading {}: {:.0f} %{}\n",
        name_,
        100 * share,
        trouble.empty() ? left : ", held up: " + trouble));
    was_told = true;
  }
  if (was_told) {
    say_(fmt::format("data: {} was read in {}\n", name_, FormatDuration(seconds())));
  }
}

}  // namespace ps::run
