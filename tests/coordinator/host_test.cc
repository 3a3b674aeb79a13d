#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "ps/coordinator/coordinator_host.h"
#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

/// A host whose fleet starts nothing, with a control file in a folder of the test's own.
class CoordinatorHostTest : public ::testing::Test {
 protected:
  CoordinatorHostTest() {
    std::string path = (std::filesystem::temp_directory_path() / "spotps-host.XXXXXX").string();
    folder_ = ::mkdtemp(path.data()) == nullptr ? "" : path;
    options_.job = SmallJob();
    options_.job.config.fleet.max_detect_s = 0.5F;
    options_.job.config.run.listen = "127.0.0.1";
    options_.token = "secret";
    options_.control_path = folder_ + "/control";
  }

  ~CoordinatorHostTest() override { std::filesystem::remove_all(folder_); }

  /// A server that ends before it was ready ends the job.
  void LoseAServer(CoordinatorHost* host) {
    host->OnProcessExited({proto::ProcessKind::kServer, 0, 0, "exited with code 1", true, ""});
  }

  std::string folder_;
  CoordinatorHost::Options options_;
  FakeFleet fleet_;
};

TEST_F(CoordinatorHostTest, ClosesOnlyWhenItsOwnerLetsGo) {
  CoordinatorHost host(options_, &NullLogger());
  ASSERT_TRUE(host.Listen().ok());
  host.loop().RunAfter({}, [&] { LoseAServer(&host); });
  int asked = 0;
  host.Run(
      {.fleet = &fleet_, .may_close = [&] { return ++asked == 3; }, .on_limit = {}, .on_wait = {}});
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(host.core().is_finished());
  EXPECT_EQ(host.core().exit_code(), 1);
  EXPECT_FALSE(host.limit_reached().has_value());
  EXPECT_FALSE(std::filesystem::exists(options_.control_path));
}

TEST_F(CoordinatorHostTest, EndsAtOnceWithoutAskingAnybody) {
  CoordinatorHost host(options_, &NullLogger());
  ASSERT_TRUE(host.Listen().ok());
  host.loop().RunAfter({}, [&] { host.EndAtOnce("told to"); });
  host.Run({.fleet = &fleet_, .may_close = [] { return false; }, .on_limit = {}, .on_wait = {}});
  EXPECT_EQ(fleet_.servers.size(), 2U);
  EXPECT_EQ(host.core().outcome().code(), StatusCode::kCancelled);
}

TEST_F(CoordinatorHostTest, TheSecondRequestToStopChangesNothing) {
  CoordinatorHost host(options_, &NullLogger());
  ASSERT_TRUE(host.Listen().ok());
  host.loop().RunAfter({}, [&] {
    host.RequestStop("the first reason");
    host.RequestStop("the second reason");
    EXPECT_TRUE(host.is_stopping());
  });
  host.Run({.fleet = &fleet_, .may_close = [] { return true; }, .on_limit = {}, .on_wait = {}});
  EXPECT_EQ(host.core().outcome().message(), "the first reason");
}

TEST_F(CoordinatorHostTest, APlaceThatHoldsNoSocketIsNamedWithTheRemedy) {
  options_.control_path = folder_ + "/missing/control";
  CoordinatorHost host(options_, &NullLogger());
  const Result<uint32_t> port = host.Listen();
  ASSERT_FALSE(port.ok());
  EXPECT_NE(port.status().message().find("run.directory"), std::string::npos) << port.status();
}

TEST_F(CoordinatorHostTest, AnAddressThatCannotBeListenedOnNamesTheFields) {
  options_.job.config.run.listen = "192.0.2.1";
  CoordinatorHost host(options_, &NullLogger());
  const Result<uint32_t> port = host.Listen();
  ASSERT_FALSE(port.ok());
  EXPECT_NE(port.status().message().find("run.listen"), std::string::npos) << port.status();
}

}  // namespace
}  // namespace ps::coordinator
