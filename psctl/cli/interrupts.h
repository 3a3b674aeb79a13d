#pragma once

#include <csignal>

namespace ps::psctl {

/// While it lives, the first Ctrl-C (or SIGTERM) is only noted; a second one ends the process. One
/// at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool IsInterrupted() const;

 private:
  struct sigaction former_int_ = {};
  struct sigaction former_term_ = {};
};

}  // namespace ps::psctl
