#include "ps/process/process_start.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace ps {
namespace {

bool IsIgnored(int signal) {
  struct sigaction action = {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void OpenStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) {
      continue;
    }
    // The lowest free number is taken: this one, as those below it are open by now. Where there is
    // no /dev/null, a folder that can't be written keeps the number from everything else.
    if (::open("/dev/null", O_RDWR) < 0) {
      [[maybe_unused]] const int fd = ::open("/", O_RDONLY | O_DIRECTORY);
    }
  }
}

std::vector<int> SignalsToHandle(std::vector<int> signals) {
  std::erase_if(signals, [](int signal) {
    return (signal == SIGHUP || signal == SIGINT) && IsIgnored(signal);
  });
  return signals;
}

}  // namespace ps
