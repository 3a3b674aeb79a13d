#include "psctl/view/raw_terminal.h"

#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "ps/base/check.h"

namespace ps::psctl {
namespace {

/// They end a process by default.
constexpr std::array kEnds = {
    SIGINT,
    SIGTERM,
    SIGHUP,
    SIGQUIT,
    SIGABRT,
    SIGSEGV,
    SIGBUS,
    SIGFPE,
    SIGILL,
    SIGTRAP,
    SIGSYS,
    SIGPIPE,
    SIGALRM,
    SIGUSR1,
    SIGUSR2,
    SIGVTALRM,
    SIGPROF,
    SIGXCPU,
    SIGXFSZ};

// All of it is read by handlers. What is below is set before the first handler is installed.
termios former_keys;
termios raw_keys;
bool has_keys = false;  // stdin is a terminal
std::array<struct sigaction, kEnds.size()> former_ends;
struct sigaction former_stop;
volatile std::sig_atomic_t is_taken = 0;
volatile std::sig_atomic_t interrupts = 0;

// The handlers make async-signal-safe calls alone.

void Say(std::string_view text) {
  [[maybe_unused]] const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
}

/// From the background, too, where SIGTTOU would stop the process.
void SetKeys(const termios& keys) {
  if (!has_keys) {
    return;
  }
  sigset_t stop;
  sigset_t before;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTTOU);
  ::sigprocmask(SIG_BLOCK, &stop, &before);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

void Take() {
  is_taken = 1;
  SetKeys(raw_keys);
  Say("\x1b[?1049h\x1b[?25l");
}

void GiveBack() {
  if (is_taken != 0) {
    is_taken = 0;
    Say("\x1b[?25h\x1b[?1049l");
    SetKeys(former_keys);
  }
}

void OnEnd(int number) {
  if ((number == SIGINT || number == SIGTERM) && interrupts == 0) {
    interrupts = 1;
    return;
  }
  GiveBack();
  const auto at = std::find(kEnds.begin(), kEnds.end(), number) - kEnds.begin();
  ::sigaction(number, &former_ends[static_cast<size_t>(at)], nullptr);
  ::raise(number);  // once this handler has returned
}

/// SIGSTOP in the place of SIGTSTP: that one stops no process whose parent is no shell. A process
/// that goes on in the background is not to draw there.
void OnStop(int /*number*/) {
  const int error = errno;
  GiveBack();
  do {
    ::raise(SIGSTOP);
  } while (::tcgetpgrp(STDIN_FILENO) > 0 && ::tcgetpgrp(STDIN_FILENO) != ::getpgrp());
  Take();
  errno = error;
}

bool lives = false;

}  // namespace

RawTerminal::RawTerminal() {
  PS_CHECK(!lives) << "a second RawTerminal";
  lives = true;
  interrupts = 0;
  has_keys = ::tcgetattr(STDIN_FILENO, &former_keys) == 0;
  raw_keys = former_keys;
  raw_keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  struct sigaction action = {};
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  action.sa_handler = OnEnd;
  for (size_t i = 0; i < kEnds.size(); ++i) {
    ::sigaction(kEnds[i], nullptr, &former_ends[i]);
    if (former_ends[i].sa_handler != SIG_IGN) {  // it would not end the process
      ::sigaction(kEnds[i], &action, nullptr);
    }
  }
  action.sa_handler = OnStop;
  ::sigaction(SIGTSTP, &action, &former_stop);
  Take();
}

RawTerminal::~RawTerminal() {
  GiveBack();
  for (size_t i = 0; i < kEnds.size(); ++i) {
    ::sigaction(kEnds[i], &former_ends[i], nullptr);
  }
  ::sigaction(SIGTSTP, &former_stop, nullptr);
  lives = false;
}

bool RawTerminal::IsInterrupted() const {
  return interrupts != 0;
}

}  // namespace ps::psctl
