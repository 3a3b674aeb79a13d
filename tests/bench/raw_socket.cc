#include "tests/bench/raw_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string_view>

#include "ps/base/check.h"

namespace ps::bench {

bool WriteAll(int fd, const std::byte* data, size_t size) {
  while (size > 0) {
    const ssize_t n = ::send(fd, data, size, MSG_NOSIGNAL);
    if (n <= 0) {
      return false;
    }
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool ReadAll(int fd, std::byte* data, size_t size) {
  while (size > 0) {
    const ssize_t n = ::recv(fd, data, size, MSG_WAITALL);
    if (n <= 0) {
      return false;
    }
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

TcpPair::TcpPair(Pacing pacing) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool is_listening = ::bind(listener, generic, length) == 0 && ::listen(listener, 1) == 0 &&
                            ::getsockname(listener, generic, &length) == 0;
  PS_CHECK(is_listening) << "no loopback socket";
  near = ::socket(AF_INET, SOCK_STREAM, 0);
  PS_CHECK(::connect(near, generic, length) == 0) << "loopback refuses";
  far = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  const int one = 1;
  for (const int fd : {near, far}) {
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (pacing == Pacing::kNone) {
      constexpr std::string_view kReno = "reno";
      const int status = ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
      PS_CHECK(status == 0) << "no Reno in this kernel";
    }
  }
}

TcpPair::~TcpPair() {
  ::close(near);
  ::close(far);
}

}  // namespace ps::bench
