#include "ps/base/request_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

namespace ps {
namespace {

TEST(RequestThreadTest, DoesRequestsInOrder) {
  std::vector<int> done;
  std::promise<void> last;
  RequestThread<int> thread([&](int request) {
    done.push_back(request);
    if (request == 2) {
      last.set_value();
    }
  });
  for (int i = 0; i < 3; ++i) {
    thread.Add(i);
  }
  last.get_future().wait();
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2}));
}

TEST(RequestThreadTest, AnEndIsNotKeptWaitingByAPause) {
  std::promise<void> begun;
  std::atomic<bool> went_on = true;
  {
    RequestThread<int>* self = nullptr;
    RequestThread<int> thread([&](int /*request*/) {
      begun.set_value();
      went_on = self->PauseUnlessEnding(std::chrono::hours(1));
    });
    self = &thread;
    thread.Add(1);
    begun.get_future().wait();
  }
  EXPECT_FALSE(went_on);
}

}  // namespace
}  // namespace ps
