#include "ps/process/process_start.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace ps {
namespace {

/// The exit code of a process of its own that does this.
int InAProcess(const std::function<int()>& work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(work());
  }
  int wait_status = 0;
  EXPECT_EQ(::waitpid(pid, &wait_status, 0), pid);
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
}

bool IsDevNull(int fd) {
  struct stat of_fd = {};
  struct stat of_null = {};
  return ::fstat(fd, &of_fd) == 0 && ::stat("/dev/null", &of_null) == 0 &&
         of_fd.st_rdev == of_null.st_rdev;
}

TEST(ProcessStartTest, ClosedStandardStreamsAreOpenedSoThatNoFileGetsTheirNumbers) {
  for (int closed = 1; closed < 8; ++closed) {
    EXPECT_EQ(
        InAProcess([closed] {
          for (int stream = 0; stream < 3; ++stream) {
            if ((closed >> stream & 1) != 0) {
              ::close(stream);
            }
          }
          OpenStandardStreams();
          for (int stream = 0; stream < 3; ++stream) {
            if ((closed >> stream & 1) != 0 && !IsDevNull(stream)) {
              return 10 + stream;
            }
          }
          return ::open("/dev/zero", O_RDONLY) > 2 ? 0 : 20;
        }),
        0)
        << "closed: " << closed;
  }
}

TEST(ProcessStartTest, OpenStandardStreamsStayWhatTheyAre) {
  EXPECT_EQ(
      InAProcess([] {
        ::close(1);
        const int zero = ::open("/dev/zero", O_RDWR);
        OpenStandardStreams();
        return zero == 1 && !IsDevNull(1) ? 0 : 1;
      }),
      0);
}

TEST(ProcessStartTest, WhatNohupOrAShellIgnoredIsNotHandled) {
  EXPECT_EQ(
      InAProcess([] {
        ::signal(SIGHUP, SIG_IGN);
        ::signal(SIGINT, SIG_DFL);
        ::signal(SIGTERM, SIG_IGN);
        return SignalsToHandle({SIGINT, SIGTERM, SIGHUP}) == std::vector<int>{SIGINT, SIGTERM} ? 0
                                                                                               : 1;
      }),
      0);
}

}  // namespace
}  // namespace ps
