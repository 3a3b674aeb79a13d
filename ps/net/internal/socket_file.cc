#include "ps/net/internal/socket_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "ps/net/internal/socket.h"

namespace ps::net {
namespace {

constexpr mode_t kOwnerOnly = 0600;

/// Where a socket file is, or is to be. Invalid (directory.get() < 0, errno says why) when its
/// directory can't be opened.
struct Place {
  UniqueFd directory;
  std::string name;
};

Place Locate(const std::string& path) {
  const size_t name_at = path.rfind('/') + 1;  // 0 without a slash
  const std::string directory = name_at == 0 ? "." : path.substr(0, name_at);
  return {
      UniqueFd(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), path.substr(name_at)};
}

/// Short however deep the directory lies. False with errno when the name itself is too long.
bool MakeAddress(const Place& place, sockaddr_un* address) {
  const std::string path = fmt::format("/proc/self/fd/{}/{}", place.directory.get(), place.name);
  if (path.size() >= sizeof(address->sun_path)) {
    errno = ENAMETOOLONG;
    return false;
  }
  *address = {};
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path, path.data(), path.size());
  return true;
}

UniqueFd MakeSocket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

asio::error_code LastError() {
  return {errno, asio::error::get_system_category()};
}

}  // namespace

Result<std::unique_ptr<SocketFile>> SocketFile::Listen(const std::string& path) {
  const auto failed = [&path] {
    const asio::error_code why = LastError();
    const StatusCode code = why == asio::error::address_in_use ? StatusCode::kUnavailable
                                                               : StatusCode::kInvalidArgument;
    return Status(code, "cannot listen on " + path + ": " + why.message());
  };
  Place place = Locate(path);
  UniqueFd socket = MakeSocket();
  sockaddr_un address;
  if (place.directory.get() < 0 || socket.get() < 0 || !MakeAddress(place, &address) ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return failed();
  }
  // From here on the file is there, and goes with this object.
  std::unique_ptr<SocketFile> file(
      new SocketFile(std::move(place.directory), std::move(place.name), std::move(socket)));
  // The umask has cut the mode that the file was made with. Until it listens no peer can connect.
  if (::fchmodat(file->directory_.get(), file->name_.c_str(), kOwnerOnly, 0) != 0 ||
      ::listen(file->socket_.get(), SOMAXCONN) != 0) {
    return failed();
  }
  return file;
}

SocketFile::~SocketFile() {
  ::unlinkat(directory_.get(), name_.c_str(), 0);
}

Result<UniqueFd> ConnectToSocketFile(const std::string& path) {
  const Place place = Locate(path);
  UniqueFd socket = MakeSocket();
  sockaddr_un address;
  if (place.directory.get() < 0 || socket.get() < 0 || !MakeAddress(place, &address) ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ToStatus(LastError());
  }
  return socket;
}

}  // namespace ps::net
