#include "ps/net/internal/socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tests/net/test_node.h"

namespace ps::net {
namespace {

std::string CongestionControlOf(int fd) {
  std::array<char, 16> name{};
  socklen_t size = name.size() - 1;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0 ? name.data() : "";
}

/// File descriptors of this process that are connected TCP sockets.
std::vector<int> ConnectedSockets() {
  std::vector<int> found;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof(peer);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        peer.sin_family == AF_INET) {
      found.push_back(fd);
    }
  }
  return found;
}

TEST(SocketTest, PacingCanBeLeftOut) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  LeaveOutPacing(fd);
  EXPECT_EQ(CongestionControlOf(fd), "reno");
  ::close(fd);
}

TEST(SocketTest, ListeningMakesRoomForTheDescriptorsOfAllConnections) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {std::min<rlim_t>(256, before.rlim_max), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EndpointOptions options = TestOptions("server");
  options.connections_max = 300;
  TestNode server(options);
  server.Listen();
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_GE(after.rlim_cur, std::min<rlim_t>(300, before.rlim_max));
  EXPECT_EQ(RaiseDescriptorLimit(10), after.rlim_cur) << "it never falls";
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(SocketTest, BothEndsOfAConnectionWithinAMachineAreWithoutPacing) {
  TestNode server(TestOptions("server"));
  TestNode client(TestOptions("client"));
  client.MustConnect(server.Listen());
  EXPECT_EQ(server.Next().kind, Event::Kind::kConnected);
  const std::vector<int> sockets = ConnectedSockets();
  EXPECT_EQ(sockets.size(), 2U);
  for (const int fd : sockets) {
    EXPECT_EQ(CongestionControlOf(fd), "reno") << "descriptor " << fd;
  }
}

}  // namespace
}  // namespace ps::net
