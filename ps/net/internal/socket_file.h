#pragma once

#include <memory>
#include <string>

#include "ps/base/status.h"
#include "ps/base/unique_fd.h"

namespace ps::net {

/// A Unix stream socket that listens as a file. Its directory is held open: its path may be longer
/// than the 107 bytes that an address holds, and it may be renamed meanwhile.
class SocketFile {
 public:
  /// Makes the file, to which only this process's user can connect, and listens. Errors:
  /// kUnavailable when there is one already, else kInvalidArgument; with the path.
  static Result<std::unique_ptr<SocketFile>> Listen(const std::string& path);
  /// Removes the file.
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

  /// The listening socket, once.
  UniqueFd TakeSocket() { return std::move(socket_); }

 private:
  SocketFile(UniqueFd directory, std::string name, UniqueFd socket)
      : directory_(std::move(directory)), name_(std::move(name)), socket_(std::move(socket)) {}

  UniqueFd directory_;
  std::string name_;
  UniqueFd socket_;
};

/// A non-blocking socket connected to such a file, at once or not at all. Errors: kUnavailable (no
/// file, or nobody listens), kInvalidArgument (somebody else's); without the path.
Result<UniqueFd> ConnectToSocketFile(const std::string& path);

}  // namespace ps::net
