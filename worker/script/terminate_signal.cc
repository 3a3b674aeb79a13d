#include "worker/script/terminate_signal.h"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <mutex>

#include "ps/base/check.h"

namespace ps::worker {
namespace {

using SignalHandler = void (*)(int);

std::mutex users_mutex;
int users = 0;  // guarded by users_mutex

// A child of fork reads these, where no lock can be taken. Written before the loop begins.
struct sigaction programs_action = {};
std::atomic<bool> is_loops = false;
std::atomic<SignalHandler> loops_handler = nullptr;  // null: not known yet

/// Async-signal-safe.
void GiveBack() {
  struct sigaction now = {};
  if (!is_loops || ::sigaction(SIGTERM, nullptr, &now) != 0) {
    return;
  }
  const SignalHandler handler = loops_handler;
  if (handler == nullptr || now.sa_handler == handler) {
    ::sigaction(SIGTERM, &programs_action, nullptr);
  }
  is_loops = false;
}

thread_local sigset_t mask_before_fork = {};

/// The child is not to be told by the loop's handler before it has its own.
void Hold() {
  sigset_t terminate;
  ::sigemptyset(&terminate);
  ::sigaddset(&terminate, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &terminate, &mask_before_fork);
}

void Release() {
  ::pthread_sigmask(SIG_SETMASK, &mask_before_fork, nullptr);
}

void BeginChild() {
  GiveBack();
  Release();
}

}  // namespace

void TerminateSignal::Keep() {
  const std::lock_guard lock(users_mutex);
  if (users++ > 0) {
    return;
  }
  static const int registered = ::pthread_atfork(Hold, Release, BeginChild);
  PS_CHECK(registered == 0) << "no memory for a handler of fork";
  ::sigaction(SIGTERM, nullptr, &programs_action);
  is_loops = true;
}

void TerminateSignal::NoteHandler() {
  struct sigaction now = {};
  if (::sigaction(SIGTERM, nullptr, &now) == 0) {
    loops_handler = now.sa_handler;
  }
}

void TerminateSignal::Restore() {
  const std::lock_guard lock(users_mutex);
  if (--users == 0) {
    GiveBack();
  }
}

TerminateSignal::Programs::Programs() {
  if (::sigaction(SIGTERM, nullptr, &action_) == 0 && loops_handler != nullptr &&
      action_.sa_handler == loops_handler) {
    action_ = programs_action;
  }
}

TerminateSignal::Programs::~Programs() {
  const std::lock_guard lock(users_mutex);
  if (users == 0) {
    ::sigaction(SIGTERM, &action_, nullptr);
  }
}

}  // namespace ps::worker
