#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ps {

/// A server that the test starts, which prints its port as the first number on its output and ends
/// with its input, so not later than the test.
class ServerProcess {
 public:
  /// `port()` is 0 when it did not start; `why()` says what it said.
  explicit ServerProcess(const std::vector<std::string>& command);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

  int port() const { return port_; }

  const std::string& why() const { return why_; }

 private:
  pid_t pid_ = 0;
  int input_ = -1;
  int port_ = 0;
  std::string why_;
};

}  // namespace ps
