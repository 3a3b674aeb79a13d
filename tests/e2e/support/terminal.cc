#include "tests/e2e/support/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "tests/e2e/support/process.h"

namespace ps::e2e {
namespace {

constexpr const char* kFrameEnd = "\x1b[0m";
constexpr const char* kColourEnd = "\x1b[39m";

}  // namespace

void Screen::Put(char c) {
  if (row_ >= lines_.size() || column_ >= lines_[row_].size()) {
    ADD_FAILURE() << "'" << c << "' beyond column " << column_ << " of line " << row_ + 1;
    return;
  }
  lines_[row_][column_++] = c;
}

size_t Screen::Control(const std::string& text, size_t begin) {
  const size_t end = text.find_first_of("HJKhlm", begin);
  if (text.compare(begin, 2, "\x1b[") != 0 || end == std::string::npos) {
    ADD_FAILURE() << "an unknown control sequence: " << text.substr(begin + 1, 8);
    return text.size();
  }
  const size_t last = lines_[row_].size() - 1;
  if (text[end] == 'H') {
    row_ = static_cast<size_t>(std::max(std::atoi(text.c_str() + begin + 2), 1)) - 1;
    column_ = 0;
  } else if (text[end] == 'K' || text[end] == 'J') {
    std::fill(
        lines_[row_].begin() + static_cast<std::ptrdiff_t>(std::min(column_, last)),
        lines_[row_].end(),
        ' ');
    for (size_t row = row_ + 1; text[end] == 'J' && row < lines_.size(); ++row) {
      std::ranges::fill(lines_[row], ' ');
    }
  }
  if (row_ >= lines_.size()) {
    ADD_FAILURE() << "the cursor is sent to line " << row_ + 1 << " of " << lines_.size();
    row_ = lines_.size() - 1;
  }
  return end + 1;
}

void Screen::Write(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\x1b') {
      i = Control(text, i);
    } else if (text[i] == '\r') {
      column_ = 0;
      ++i;
    } else if (text[i] == '\n') {
      EXPECT_LT(row_ + 1, lines_.size()) << "the screen is scrolled";
      row_ = std::min(row_ + 1, lines_.size() - 1);
      ++i;
    } else {
      Put(text[i++]);
    }
  }
}

std::vector<std::string> Screen::lines() const {
  std::vector<std::string> lines = lines_;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

TerminalProcess::TerminalProcess(
    const std::string& program,
    const std::vector<std::string>& arguments,
    size_t width,
    size_t height)
    : width_(width), height_(height), screen_(width, height) {
  std::vector<std::string> words{ProgramPath(program)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  winsize size{};
  size.ws_col = static_cast<unsigned short>(width);
  size.ws_row = static_cast<unsigned short>(height);
  int terminal = -1;
  pid_ = ::forkpty(&terminal, nullptr, nullptr, &size);
  EXPECT_GE(pid_, 0) << "no terminal";
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    constexpr rlimit kNoCore = {0, 0};
    ::setrlimit(RLIMIT_CORE, &kNoCore);
    ::execv(argv.front(), argv.data());
    ::_exit(127);
  }
  terminal_ = UniqueFd(terminal);
  ::fcntl(terminal, F_SETFL, O_NONBLOCK);
  ::fcntl(terminal, F_SETFD, FD_CLOEXEC);
}

TerminalProcess::~TerminalProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

std::vector<std::string> TerminalProcess::Look() {
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(terminal_.get(), buffer, sizeof(buffer))) > 0;) {
    pending_.append(buffer, static_cast<size_t>(n));
  }
  for (size_t end = 0; (end = pending_.find(kFrameEnd)) != std::string::npos;) {
    const std::string frame = pending_.substr(0, end);
    pending_.erase(0, end + std::string(kFrameEnd).size());
    Screen alone(width_, height_);
    alone.Write(frame);
    screen_.Write(frame);
    EXPECT_EQ(screen_.lines(), alone.lines()) << "something of an earlier frame is left";
    has_frame_ = true;
    has_colours_ = has_colours_ || frame.find(kColourEnd) != std::string::npos;
  }
  return has_frame_ ? screen_.lines() : std::vector<std::string>();
}

void TerminalProcess::Type(const std::string& keys) {
  EXPECT_EQ(::write(terminal_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

int TerminalProcess::WaitForEnd() {
  int status = -1;
  const bool has_ended = WaitUntil([&] {
    Look();  // or it waits for room
    return ::waitpid(pid_, &status, WNOHANG) == pid_;
  });
  if (!has_ended) {
    return -1;
  }
  pid_ = 0;
  Look();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool TerminalProcess::IsForShell() const {
  constexpr tcflag_t kForShell = ICANON | ECHO | ISIG;
  termios keys{};
  EXPECT_EQ(::tcgetattr(terminal_.get(), &keys), 0);
  return (keys.c_lflag & kForShell) == kForShell;
}

}  // namespace ps::e2e
