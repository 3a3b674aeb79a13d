#include "run/report/console.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "run/report/progress.h"

namespace ps::run {
namespace {

Status WriteResult(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EPIPE) {
      return Status::Ok();  // a reader that has seen enough
    }
    if (n <= 0) {
      return Status::Io(fmt::format("cannot write the result: {}", std::strerror(errno)));
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return Status::Ok();
}

std::string ReadLine() {
  std::string line;
  char letter = 0;
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, &letter, 1);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0 || letter == '\n') {
      return line;
    }
    line += letter;
  }
}

bool IsSameFile(int a, int b) {
  struct stat of_a = {};
  struct stat of_b = {};
  return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace

int Fail(const Console& console, const Status& status) {
  console.err("psctl: " + std::string(status.message()) + "\n");
  return kExitFailed;
}

int Misuse(const Console& console, const Status& status) {
  Fail(console, status);
  return kExitMisused;
}

Console ProcessConsole() {
  Console console;
  const auto written = std::make_shared<Status>();
  console.out = [written](std::string_view text) {
    if (written->ok()) {
      *written = WriteResult(STDOUT_FILENO, text);
    }
  };
  console.out_status = [written] { return *written; };
  console.err = [](std::string_view text) {
    WriteResult(STDERR_FILENO, text).Ignore("there is nowhere to say so");
  };
  console.out_width = ::isatty(STDOUT_FILENO) != 0 ? TerminalWidth(STDOUT_FILENO) : 0;
  console.is_err_terminal = ::isatty(STDERR_FILENO) != 0;
  console.is_joined = IsSameFile(STDOUT_FILENO, STDERR_FILENO);
  console.err_width = [] { return TerminalWidth(STDERR_FILENO); };
  if (console.is_err_terminal && ::isatty(STDIN_FILENO) != 0) {
    console.read_line = ReadLine;
  }
  return console;
}

}  // namespace ps::run
