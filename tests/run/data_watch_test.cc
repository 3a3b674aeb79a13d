#include "run/report/data_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

namespace ps::run {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// What was said, and a wait until there is so much of it.
class Said {
 public:
  DataWatch::Say say() {
    return [this](std::string_view text) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(text);
      changed_.notify_all();
    };
  }

  std::vector<std::string> Await(size_t lines) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return lines_.size() >= lines; });
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

TEST(DataWatchTest, WhatTakesLongIsToldUntilItEnds) {
  Said said;
  {
    DataWatch watch(
        "/data", said.say(), std::chrono::milliseconds(1), std::chrono::milliseconds(1));
    watch.progress()->Expect(200);
    ASSERT_TRUE(watch.progress()->Advance(50).ok());
    EXPECT_THAT(said.Await(3).back(), HasSubstr("data: reading /data: 25 %, "));
  }
  EXPECT_THAT(said.Await(0).back(), HasSubstr("data: /data was read in "));
}

TEST(DataWatchTest, WhatIsQuickIsNotWorthALine) {
  Said said;
  { const DataWatch watch("/data", said.say(), std::chrono::hours(1)); }
  EXPECT_THAT(said.Await(0), IsEmpty());
}

}  // namespace
}  // namespace ps::run
