#include "psctl/plan/plan_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoppedClock final : public TimeSource {
 public:
  TimePoint Now() const override { return now_; }

  int64_t UnixMicros() const override { return 0; }

  void Pass(double seconds) { now_ += FromSeconds(seconds); }

 private:
  TimePoint now_{};
};

class PlanWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    console_.err = [this](std::string_view text) { err_ += text; };
    console_.err_width = [] { return size_t{200}; };
    console_.is_err_terminal = true;
  }

  StoppedClock clock_;
  run::Console console_;
  std::string err_;
};

constexpr provisioner::SearchProgress kProgress{.fleets = 1234, .usd_best = 4.5, .usd_bound = 4.2};

TEST_F(PlanWatchTest, ALineAppearsAfterAWhileAndGoesAway) {
  PlanWatch watch(Duration::max(), clock_, console_);
  EXPECT_TRUE(watch.GoesOn(kProgress));
  EXPECT_THAT(err_, IsEmpty()) << "most plans are made at once";
  clock_.Pass(2);
  EXPECT_TRUE(watch.GoesOn(kProgress));
  EXPECT_THAT(err_, HasSubstr("for 2 s, 1,234 fleets, best 4.50 USD, none below 4.20; Ctrl-C"));
  const size_t once = err_.size();
  EXPECT_TRUE(watch.GoesOn(kProgress));
  EXPECT_EQ(err_.size(), once) << "not redrawn at every question";
  watch.Finish();
  EXPECT_TRUE(err_.ends_with("\r\x1b[K"));
  EXPECT_THAT(watch.reason(), IsEmpty());
}

TEST_F(PlanWatchTest, WithoutATerminalThereIsNoLine) {
  console_.is_err_terminal = false;
  {
    PlanWatch watch(Duration::max(), clock_, console_);
    clock_.Pass(2);
    EXPECT_TRUE(watch.GoesOn(kProgress));
  }
  EXPECT_THAT(err_, IsEmpty());
}

TEST_F(PlanWatchTest, TheEffortEndsTheSearchForGood) {
  PlanWatch watch(FromSeconds(3), clock_, console_);
  clock_.Pass(2.9);
  EXPECT_TRUE(watch.GoesOn(kProgress));
  clock_.Pass(0.1);
  EXPECT_FALSE(watch.GoesOn(kProgress));
  EXPECT_FALSE(watch.GoesOn(kProgress));
  EXPECT_THAT(watch.reason(), HasSubstr("after 3.00 s (--effort)"));
}

TEST_F(PlanWatchTest, CtrlCEndsTheSearchAndTheNextOneTheProcess) {
  struct sigaction before = {};
  ::sigaction(SIGINT, nullptr, &before);
  {
    PlanWatch watch(Duration::max(), clock_, console_);
    EXPECT_TRUE(watch.GoesOn(kProgress));
    ::raise(SIGINT);
    EXPECT_FALSE(watch.GoesOn(kProgress));
    EXPECT_EQ(watch.reason(), "the search was interrupted");
    struct sigaction next = {};
    ::sigaction(SIGINT, nullptr, &next);
    EXPECT_EQ(next.sa_handler, SIG_DFL);
  }
  struct sigaction after = {};
  ::sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

}  // namespace
}  // namespace ps::psctl
