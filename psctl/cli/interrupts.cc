#include "psctl/cli/interrupts.h"

#include "ps/process/process_start.h"

namespace ps::psctl {
namespace {

volatile std::sig_atomic_t interrupted = 0;

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the next one ends the process
  ::sigaction(SIGINT, nullptr, &former_int_);
  ::sigaction(SIGTERM, nullptr, &former_term_);
  for (const int number : SignalsToHandle({SIGINT, SIGTERM})) {
    ::sigaction(number, &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &former_int_, nullptr);
  ::sigaction(SIGTERM, &former_term_, nullptr);
}

bool InterruptGuard::IsInterrupted() const {
  return interrupted != 0;
}

}  // namespace ps::psctl
