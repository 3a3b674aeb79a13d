#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "ps/base/check.h"
#include "ps/base/text.h"

namespace ps::provisioner {

/// A script of this folder that makes a place for processes, sshd.sh or slurm.sh, and clears it
/// away when this object goes.
class ClusterScript {
 public:
  ClusterScript() = default;
  ClusterScript(const ClusterScript&) = delete;
  ClusterScript& operator=(const ClusterScript&) = delete;

  ~ClusterScript() {
    if (input_ >= 0) {
      ::close(input_);
      ::waitpid(script_, nullptr, 0);
    }
  }

  /// Empty when the script says "ready"; else what it says instead.
  std::string Start(
      const std::string& name, const std::string& directory, const std::string& address = "") {
    int in[2];
    int out[2];
    PS_CHECK(::pipe2(in, O_CLOEXEC) == 0 && ::pipe2(out, O_CLOEXEC) == 0);
    script_ = ::fork();
    if (script_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      const std::string path = "tests/provisioner/fleet/" + name;
      const char* const last = address.empty() ? nullptr : address.c_str();
      ::execl(path.c_str(), path.c_str(), directory.c_str(), last, nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    std::string text;
    char c = 0;
    while (::read(out[0], &c, 1) == 1 && c != '\n') {
      text += c;
    }
    ::close(out[0]);
    return text == "ready" ? "" : "no " + name + " here: " + Printable(text);
  }

 private:
  pid_t script_ = -1;
  int input_ = -1;
};

}  // namespace ps::provisioner
