#include "ps/base/request_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>
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

TEST(RequestThreadTest, OneThatIsDoneEndsAndTakesItsWorkAlong) {
  const auto owned = std::make_shared<int>(0);
  RequestThread<int> thread([owned](int request) { *owned += request; });
  EXPECT_EQ(owned.use_count(), 2);
  EXPECT_TRUE(thread.EndWithin(std::chrono::hours(1)));
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(RequestThreadTest, OneThatHangsIsLeftToItselfWithAllThatItUses) {
  std::promise<void> begun;
  std::promise<void> may_go_on;
  std::promise<int> last;
  auto owned = std::make_shared<int>(3);
  const std::weak_ptr<int> seen = owned;
  {
    RequestThread<int> thread(
        [&begun, &last, owned = std::move(owned), hang = may_go_on.get_future().share()](int) {
          begun.set_value();
          hang.wait();
          last.set_value(*owned);
        });
    thread.Add(1);
    thread.Add(2);
    begun.get_future().wait();
    EXPECT_FALSE(thread.EndWithin(std::chrono::milliseconds(1)));
  }
  EXPECT_FALSE(seen.expired());
  may_go_on.set_value();
  EXPECT_EQ(last.get_future().get(), 3) << "and the second request is dropped";
  while (!seen.expired()) {
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace ps
