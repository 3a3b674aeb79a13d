#include "psctl/view/raw_terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "ps/base/unique_fd.h"

namespace ps::psctl {
namespace {

/// A process that has taken a terminal of its own, and hangs.
class RawTerminalTest : public ::testing::Test {
 protected:
  RawTerminalTest() : terminal_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    EXPECT_EQ(::grantpt(terminal_.get()), 0);
    EXPECT_EQ(::unlockpt(terminal_.get()), 0);
    tty_ = UniqueFd(::open(::ptsname(terminal_.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    EXPECT_TRUE(IsAsBefore());
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      Hang(ends[1]);
    }
    ::close(ends[1]);
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    ::close(ends[0]);
    EXPECT_FALSE(IsAsBefore());
  }

  ~RawTerminalTest() override {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  [[noreturn]] void Hang(int ready) const {
    constexpr rlimit kNoCore = {0, 0};
    ::setrlimit(RLIMIT_CORE, &kNoCore);
    ::setsid();
    ::ioctl(tty_.get(), TIOCSCTTY, 0);
    ::dup2(tty_.get(), STDIN_FILENO);
    ::dup2(tty_.get(), STDOUT_FILENO);
    for (const int number : {SIGSEGV, SIGABRT, SIGBUS}) {
      ::signal(number, SIG_DFL);  // a sanitizer's
    }
    const RawTerminal raw;
    [[maybe_unused]] const ssize_t n = ::write(ready, "", 1);
    while (true) {
      ::pause();
    }
  }

  /// Lines, with echo, as a shell needs it.
  bool IsAsBefore() const {
    termios keys{};
    EXPECT_EQ(::tcgetattr(tty_.get(), &keys), 0);
    return (keys.c_lflag & (ICANON | ECHO)) == (ICANON | ECHO);
  }

  /// All that was drawn since it was asked last.
  std::string Drawn() const {
    std::string text;
    for (pollfd poll = {terminal_.get(), POLLIN, 0}; ::poll(&poll, 1, 0) == 1;) {
      char part[256];
      const ssize_t n = ::read(terminal_.get(), part, sizeof(part));
      if (n <= 0) {
        break;
      }
      text.append(part, static_cast<size_t>(n));
    }
    return text;
  }

  UniqueFd terminal_;
  UniqueFd tty_;
  pid_t pid_ = 0;
};

class RawTerminalEndTest : public RawTerminalTest, public ::testing::WithParamInterface<int> {};

TEST_P(RawTerminalEndTest, TheTerminalIsGivenBack) {
  const int number = GetParam();
  // The first one asks, the second one ends a process that does not hear.
  const bool is_request = number == SIGINT || number == SIGTERM;
  int wait_status = 0;
  ::kill(pid_, number);
  while (is_request && ::waitpid(pid_, &wait_status, WNOHANG) == 0) {
    ::kill(pid_, number);
  }
  if (!is_request) {
    ASSERT_EQ(::waitpid(pid_, &wait_status, 0), pid_);
  }
  EXPECT_TRUE(WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == number) << wait_status;
  EXPECT_TRUE(IsAsBefore());
  EXPECT_NE(Drawn().find("\x1b[?25h\x1b[?1049l"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Signals,
    RawTerminalEndTest,
    ::testing::Values(SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGABRT, SIGSEGV, SIGPIPE, SIGUSR1),
    [](const auto& suite) { return "Signal" + std::to_string(suite.param); });

TEST_F(RawTerminalTest, AStopGivesTheTerminalBackUntilTheProcessGoesOn) {
  Drawn();
  ASSERT_EQ(::kill(pid_, SIGTSTP), 0);
  int wait_status = 0;
  ASSERT_EQ(::waitpid(pid_, &wait_status, WUNTRACED), pid_);
  ASSERT_TRUE(WIFSTOPPED(wait_status));
  EXPECT_TRUE(IsAsBefore());
  EXPECT_NE(Drawn().find("\x1b[?25h\x1b[?1049l"), std::string::npos);
  ASSERT_EQ(::kill(pid_, SIGCONT), 0);
  pollfd poll = {terminal_.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&poll, 1, 30'000), 1) << "it draws again";
  EXPECT_FALSE(IsAsBefore());
}

}  // namespace
}  // namespace ps::psctl
