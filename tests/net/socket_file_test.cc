#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <variant>

#include "ps/net/client.h"
#include "tests/net/test_node.h"

namespace ps::net {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uid_t kNobody = 65534;

/// A server that echoes, as psctl meets it: at a file, which wants no token and takes one role.
class SocketFileTest : public testing::Test {
 protected:
  SocketFileTest() { server_->EchoEverything(); }

  static EndpointOptions Options() {
    EndpointOptions options = TestOptions("server");
    options.roles = {proto::Role::kWorker};
    options.file_roles = {proto::Role::kControl};
    return options;
  }

  Status Listen(const std::string& file) {
    Status status;
    server_->Do([&](Endpoint& endpoint) { status = endpoint.ListenAtFile(file); });
    return status;
  }

  static proto::Hello Control() {
    proto::Hello hello;
    hello.role = proto::Role::kControl;
    hello.node = "psctl";
    return hello;
  }

  static Status Ask(const std::string& file, const proto::Hello& hello = Control()) {
    return Call(file, hello, proto::StopRequest{}, kAmple).status();
  }

  OpenFolder folder_;
  std::unique_ptr<TestNode> server_ = std::make_unique<TestNode>(Options());
  const std::string file_ = folder_ / "control.sock";
};

unsigned ModeOf(const std::string& path) {
  struct stat info {};

  EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
  EXPECT_TRUE(S_ISSOCK(info.st_mode)) << path;
  return info.st_mode & 07777U;
}

/// A socket of that name, whose owner has died: nobody listens.
void LeaveStale(const std::string& file) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(file.size(), sizeof(address.sun_path));
  std::strncpy(address.sun_path, file.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  ::close(fd);
}

TEST_F(SocketFileTest, WhoCanOpenItNeedsNoTokenButTheRole) {
  ASSERT_TRUE(Listen(file_).ok());
  EXPECT_EQ(Ask(file_).ToString(), "ok");
  proto::Hello worker = TestHello("w0");  // with the token
  EXPECT_THAT(std::string(Ask(file_, worker).message()), HasSubstr("no connections from a worker"));
}

TEST_F(SocketFileTest, ThePortBesideItAsksForTheTokenAndItsOwnRoles) {
  ASSERT_TRUE(Listen(file_).ok());
  const uint32_t port = server_->Listen();
  TestNode client(TestOptions("client"));
  EXPECT_TRUE(client.Connect(port, TestHello("w0")).ok());
  proto::Hello hello = TestHello("w0");
  hello.token.clear();
  EXPECT_THAT(
      std::string(client.Connect(port, hello).status().message()), HasSubstr("wrong token"));
  hello = TestHello("psctl");
  hello.role = proto::Role::kControl;
  EXPECT_THAT(
      std::string(client.Connect(port, hello).status().message()),
      HasSubstr("no connections from a control"));
  EXPECT_EQ(Ask(file_).ToString(), "ok");
}

TEST_F(SocketFileTest, StrangersWhoFillThePortDoNotKeepItsOwnerOut) {
  EndpointOptions options = Options();
  options.half_open_max = 2;
  options.connections_max = 3;
  server_ = std::make_unique<TestNode>(options);
  server_->EchoEverything();
  ASSERT_TRUE(Listen(file_).ok());
  const Door port = server_->Listen(DoorKind::kPort);
  TestNode client(TestOptions("client"));
  client.MustConnect(port);
  const RawSocket first(port);
  const RawSocket second(port);
  EXPECT_EQ(client.Connect(port, TestHello("w0")).status().code(), StatusCode::kOverloaded);
  EXPECT_EQ(Ask(file_).ToString(), "ok");
}

TEST_F(SocketFileTest, ItIsItsOwnersWhateverTheUmask) {
  for (const mode_t mask : {0U, 022U, 0777U}) {
    const mode_t before = ::umask(mask);
    const std::string file = folder_ / std::to_string(mask);
    const Status listening = Listen(file);
    ::umask(before);
    ASSERT_TRUE(listening.ok()) << listening;
    EXPECT_EQ(ModeOf(file), 0600U) << mask;
    EXPECT_EQ(Ask(file).ToString(), "ok") << mask;
  }
}

TEST_F(SocketFileTest, AnotherUserIsKeptOut) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can become somebody else";
  }
  const mode_t before = ::umask(0);
  const Status listening = Listen(file_);
  ::umask(before);
  ASSERT_TRUE(listening.ok()) << listening;
  ASSERT_EQ(::seteuid(kNobody), 0);
  const Status status = Ask(file_);
  const bool is_seen = fs::exists(file_);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_TRUE(is_seen) << "it is the file that refuses, not the folder";
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Permission denied"));
}

TEST_F(SocketFileTest, ItsDirectoryMayBeDeeperThanAnAddressIsLong) {
  const std::string deep = folder_ / std::string(100, 'a') + "/" + std::string(200, 'b');
  fs::create_directories(deep);
  ASSERT_TRUE(Listen(deep + "/control.sock").ok());
  EXPECT_EQ(ModeOf(deep + "/control.sock"), 0600U);
  EXPECT_EQ(Ask(deep + "/control.sock").ToString(), "ok");
  server_.reset();
  EXPECT_TRUE(fs::is_empty(deep));
}

TEST_F(SocketFileTest, ARelativePathIsFine) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_ / ".");
  const Status listening = Listen("control.sock");
  const Status answer = Ask("control.sock");
  fs::current_path(before);
  EXPECT_EQ(listening.ToString(), "ok");
  EXPECT_EQ(answer.ToString(), "ok");
}

TEST_F(SocketFileTest, ItsDirectoryMayBeRenamed) {
  fs::create_directory(folder_ / "before");
  ASSERT_TRUE(Listen(folder_ / "before/control.sock").ok());
  fs::rename(folder_ / "before", folder_ / "after");
  EXPECT_EQ(Ask(folder_ / "after/control.sock").ToString(), "ok");
  server_.reset();
  EXPECT_TRUE(fs::is_empty(folder_ / "after"));
}

TEST_F(SocketFileTest, ItGoesWhenNobodyListensAnyMore) {
  ASSERT_TRUE(Listen(file_).ok());
  server_->Do([](Endpoint& endpoint) { endpoint.StopListening(); });
  EXPECT_FALSE(fs::exists(file_));
  EXPECT_EQ(Ask(file_).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Listen(file_).ok()) << "it may begin again";
  EXPECT_EQ(Ask(file_).ToString(), "ok");
}

TEST_F(SocketFileTest, WhatAKilledProcessLeftIsSaidToBeUnavailable) {
  LeaveStale(file_);
  const Status status = Ask(file_);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), StartsWith(file_ + ": "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("refused"));
}

TEST_F(SocketFileTest, WhatIsThereAlreadyIsLeftAlone) {
  std::ofstream(file_) << "text";
  const Status status = Listen(file_);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(file_));
  EXPECT_EQ(fs::file_size(file_), 4U);
}

TEST_F(SocketFileTest, APlaceWithoutSocketsIsNamed) {
  fs::create_directory(folder_ / "folder");
  std::ofstream(folder_ / "file") << "text";
  for (const std::string& file :
       {folder_ / "none/control.sock",
        folder_ / "file/control.sock",
        std::string("/proc/control.sock"),  // files only the kernel makes
        folder_ / std::string(200, 'n'),    // the name alone is too long
        folder_ / "folder/"}) {
    const Status status = Listen(file);
    EXPECT_FALSE(status.ok()) << file;
    EXPECT_THAT(std::string(status.message()), StartsWith("cannot listen on " + file + ": "));
  }
}

TEST_F(SocketFileTest, ALateListenerIsFoundByARetry) {
  TestNode client(TestOptions("client"));
  RetryPolicy retry = PatientPolicy();
  retry.attempts_max = 1000;
  retry.first = std::chrono::milliseconds(1);
  retry.limit = std::chrono::milliseconds(20);
  std::promise<Result<proto::PeerId>> done;
  client.Do([&](Endpoint& endpoint) {
    endpoint.ConnectToFile(
        file_,
        Control(),
        [&](Result<proto::PeerId> peer) { done.set_value(std::move(peer)); },
        retry);
  });
  ASSERT_TRUE(Listen(file_).ok());
  const Result<proto::PeerId> peer = done.get_future().get();
  EXPECT_TRUE(peer.ok()) << peer.status();
}

}  // namespace
}  // namespace ps::net
