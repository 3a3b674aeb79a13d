#include "ps/net/loop.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace ps::net {
namespace {

using std::chrono::milliseconds;

TEST(LoopTest, PostedFunctionsRunInOrder) {
  Loop loop;
  std::vector<int> seen;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(loop.Post([&seen, i] { seen.push_back(i); }).ok());
  }
  ASSERT_TRUE(loop.Post([&] { loop.Stop(); }).ok());
  loop.Run();
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(LoopTest, ManyThreadsMayPost) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 2000;
  Loop loop;
  int count = 0;  // the loop's alone: the thread sanitizer would see a second user
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPosts; ++i) {
        EXPECT_TRUE(loop.Post([&] {
                          if (++count == kThreads * kPosts) {
                            loop.Stop();
                          }
                        })
                        .ok());
      }
    });
  }
  loop.Run();
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(count, kThreads * kPosts);
}

TEST(LoopTest, AFullMailboxRefusesAndTakesAgainOnceEmptied) {
  Loop loop(2);
  int count = 0;
  EXPECT_TRUE(loop.Post([&] { ++count; }).ok());
  EXPECT_TRUE(loop.Post([&] { loop.Stop(); }).ok());
  EXPECT_EQ(loop.Post([&] { ++count; }).code(), StatusCode::kOverloaded);
  loop.Run();
  EXPECT_EQ(count, 1);
  EXPECT_TRUE(loop.Post([&] { loop.Stop(); }).ok());
  loop.Run();
}

TEST(LoopTest, TimersFireInOrderOfTimeAndACancelledOneNever) {
  Loop loop;
  std::vector<int> seen;
  loop.RunAfter(milliseconds(4), [&] {
    seen.push_back(2);
    loop.Stop();
  });
  const TimerId cancelled = loop.RunAfter(milliseconds(2), [&] { seen.push_back(9); });
  loop.RunAfter(milliseconds(0), [&] {
    seen.push_back(1);
    loop.Cancel(cancelled);
  });
  loop.Run();
  EXPECT_EQ(seen, (std::vector<int>{1, 2}));
}

TEST(LoopTest, AnEveryTimerRepeatsUntilItCancelsItself) {
  Loop loop;
  int beats = 0;
  TimerId timer;
  timer = loop.RunEvery(milliseconds(1), [&] {
    if (++beats == 3) {
      loop.Cancel(timer);
      loop.RunAfter(milliseconds(5), [&] { loop.Stop(); });
    }
  });
  loop.Run();
  EXPECT_EQ(beats, 3);
  loop.Cancel(timer);  // unknown by now, and fine
}

TEST(LoopTest, StopBeforeRunMakesRunReturnOnce) {
  Loop loop;
  int count = 0;
  ASSERT_TRUE(loop.Post([&] {
                    ++count;
                    loop.Stop();
                  })
                  .ok());
  loop.Stop();
  loop.Run();
  EXPECT_EQ(count, 0);
  loop.Run();
  EXPECT_EQ(count, 1);
}

TEST(LoopTest, SignalsArriveOnTheLoopAgainAndAgain) {
  Loop loop;
  std::vector<int> seen;
  ASSERT_TRUE(loop.OnSignal(
                      {SIGUSR1, SIGUSR2},
                      [&](int signal) {
                        seen.push_back(signal);
                        if (seen.size() == 2) {
                          loop.Stop();
                        } else {
                          ::raise(SIGUSR2);
                        }
                      })
                  .ok());
  ::raise(SIGUSR1);
  loop.Run();
  EXPECT_EQ(seen, (std::vector<int>{SIGUSR1, SIGUSR2}));
}

TEST(LoopTest, ASignalThatIsIgnoredFromTheStartStaysIgnored) {
  const auto former = ::signal(SIGHUP, SIG_IGN);
  {
    Loop loop;
    std::vector<int> seen;
    ASSERT_TRUE(loop.OnSignal(
                        {SIGHUP, SIGUSR1},
                        [&](int signal) {
                          seen.push_back(signal);
                          loop.Stop();
                        })
                    .ok());
    ::raise(SIGHUP);
    ::raise(SIGUSR1);
    loop.Run();
    EXPECT_EQ(seen, std::vector<int>{SIGUSR1});
  }
  ::signal(SIGHUP, former);
}

TEST(LoopTest, ASignalThatCannotBeCaughtIsRefused) {
  Loop loop;
  EXPECT_EQ(loop.OnSignal({SIGKILL}, [](int) {}).code(), StatusCode::kInvalidArgument);
}

TEST(LoopTest, EveryWatchedChildIsReportedWithItsStatus) {
  Loop loop;
  std::vector<int> codes(3, -2);
  size_t exited = 0;
  for (int i = 0; i < 3; ++i) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      ::_exit(10 + i);
    }
    loop.WatchChild(pid, [&, i](int wait_status) {
      ASSERT_TRUE(WIFEXITED(wait_status));
      codes[static_cast<size_t>(i)] = WEXITSTATUS(wait_status);
      if (++exited == 3) {
        loop.Stop();
      }
    });
  }
  loop.Run();
  EXPECT_EQ(codes, (std::vector<int>{10, 11, 12}));
}

TEST(LoopTest, AProcessThatIsNoChildIsReportedAsSuch) {
  Loop loop;
  int seen = 0;
  loop.WatchChild(::getpid(), [&](int wait_status) {
    seen = wait_status;
    loop.Stop();
  });
  loop.Run();
  EXPECT_EQ(seen, -1);
}

}  // namespace
}  // namespace ps::net
