#include "tests/e2e/support/machine.h"

#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

namespace ps::e2e {
namespace {

/// 0, or errno.
int SetLoopback(bool is_up) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) {
    return errno;
  }
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", IFNAMSIZ - 1);
  int error = ::ioctl(socket, SIOCGIFFLAGS, &request) == 0 ? 0 : errno;
  if (error == 0) {
    request.ifr_flags = static_cast<short>(
        is_up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~static_cast<int>(IFF_UP));
    error = ::ioctl(socket, SIOCSIFFLAGS, &request) == 0 ? 0 : errno;
  }
  ::close(socket);
  return error;
}

/// Before the rule by which all packets of this network are its own.
constexpr const char* kCutRule = "rule add pref 10 ipproto tcp";

bool Ip(const std::string& arguments) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): tests have one thread
  return std::system(("ip " + arguments + " > /dev/null 2>&1").c_str()) == 0;
}

}  // namespace

testing::AssertionResult MountSmallDisk(const std::string& path, const std::string& options) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr)) {
    return testing::AssertionFailure() << "no mount namespace: " << std::strerror(errno);
  }
  if (::mount("none", path.c_str(), "tmpfs", 0, options.c_str()) != 0) {
    return testing::AssertionFailure() << "mount tmpfs: " << std::strerror(errno);
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult UnshareNetwork() {
  if (::unshare(CLONE_NEWNET) != 0) {
    return testing::AssertionFailure() << "no network namespace: " << std::strerror(errno);
  }
  if (const int error = SetLoopback(true); error != 0) {
    return testing::AssertionFailure() << "lo does not come up: " << std::strerror(error);
  }
  return testing::AssertionSuccess();
}

NetworkCut::NetworkCut() {
  EXPECT_EQ(SetLoopback(false), 0);
}

NetworkCut::~NetworkCut() {
  EXPECT_EQ(SetLoopback(true), 0);
}

testing::AssertionResult PrepareLinkCuts() {
  if (!Ip("rule add pref 100 lookup local") || !Ip("rule del pref 0")) {
    return testing::AssertionFailure() << "no rules for packets: ip rule (package iproute2)";
  }
  return testing::AssertionSuccess();
}

LinkCut::LinkCut(uint16_t port, Way way) {
  const std::string end = way == Way::kTo ? " dport " : " sport ";
  EXPECT_TRUE(Ip(kCutRule + end + std::to_string(port) + " blackhole"));
}

LinkCut::~LinkCut() {
  EXPECT_TRUE(Ip("rule del pref 10"));
}

DiskFiller::DiskFiller(std::string path) : path_(std::move(path)) {
  std::ofstream file(path_, std::ios::binary);
  // In ever smaller pieces, so that little room stays.
  for (size_t bytes = 1 << 20; bytes > 0; bytes /= 16) {
    const std::vector<char> piece(bytes, 'x');
    while (file.write(piece.data(), static_cast<std::streamsize>(bytes)).flush().good()) {
    }
    file.clear();
  }
}

DiskFiller::~DiskFiller() {
  std::error_code error;
  std::filesystem::remove(path_, error);
  EXPECT_FALSE(error) << path_ << ": " << error.message();
}

Freeze::Freeze(int64_t pid) : pid_(pid) {
  if (pid_ > 0) {
    ::kill(static_cast<pid_t>(pid_), SIGSTOP);
  }
}

Freeze::~Freeze() {
  if (pid_ > 0) {
    ::kill(static_cast<pid_t>(pid_), SIGCONT);
  }
}

}  // namespace ps::e2e
