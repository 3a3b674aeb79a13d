#include "tests/http/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstdlib>

#include "ps/base/check.h"

namespace ps {

ServerProcess::ServerProcess(const std::vector<std::string>& command) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  PS_CHECK(::pipe2(in.data(), O_CLOEXEC) == 0 && ::pipe2(out.data(), O_CLOEXEC) == 0) << "no pipe";
  std::vector<char*> arguments;
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  pid_ = ::fork();
  PS_CHECK(pid_ >= 0) << "no process";
  if (pid_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(out[1], STDERR_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  // The first line is the port, or an error message.
  char c = 0;
  while (::read(out[0], &c, 1) == 1 && c != '\n') {
    why_.push_back(c);
  }
  ::close(out[0]);
  if (!why_.empty() && std::isdigit(static_cast<unsigned char>(why_.front())) != 0) {
    port_ = std::atoi(why_.c_str());
  }
}

ServerProcess::~ServerProcess() {
  ::close(input_);
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace ps
