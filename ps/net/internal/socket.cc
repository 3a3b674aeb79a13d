#include "ps/net/internal/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/error.hpp>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <limits>

#include "ps/base/host_port.h"

namespace ps::net {
namespace {

using asio::ip::tcp;

tcp::endpoint AsTcp(const StreamSocket::endpoint_type& endpoint) {
  tcp::endpoint same;
  std::memcpy(same.data(), endpoint.data(), std::min(endpoint.size(), same.capacity()));
  return same;
}

}  // namespace

Remote RemoteOf(const StreamSocket& socket) {
  asio::error_code error;
  const auto local = socket.local_endpoint(error);
  if (!error && local.protocol().family() == AF_UNIX) {
    return {"socket file", "socket file", true};
  }
  asio::error_code remote_error;
  const tcp::endpoint remote = AsTcp(socket.remote_endpoint(remote_error));
  if (remote_error) {
    return {"?", "?", false};
  }
  const std::string host = remote.address().to_string();
  return {
      FormatHostPort(host, remote.port()),
      host,
      !error && remote.address() == AsTcp(local).address()};
}

Status ToStatus(const asio::error_code& error) {
  if (!error) {
    return Status::Ok();
  }
  if (error == asio::error::operation_aborted) {
    return Status::Cancelled(error.message());
  }
  if (error == asio::error::timed_out) {
    return Status::DeadlineExceeded(error.message());
  }
  if (error == asio::error::host_not_found || error == asio::error::service_not_found) {
    return Status::NotFound(error.message());
  }
  if (error == asio::error::access_denied || error == asio::error::invalid_argument ||
      error == asio::error::address_family_not_supported) {
    return Status::InvalidArgument(error.message());
  }
  if (error == asio::error::no_descriptors || error == asio::error::no_memory ||
      error == asio::error::no_buffer_space) {
    return Status::Overloaded(error.message());
  }
  return Status::Unavailable(error.message());
}

namespace {

IoResult Failed(int error) {
  IoResult result;
  if (error == EAGAIN || error == EWOULDBLOCK) {
    result.would_block = true;
    result.is_drained = true;
  } else {
    result.status = ToStatus(asio::error_code(error, asio::error::get_system_category()));
  }
  return result;
}

}  // namespace

IoResult ReceiveSome(int fd, std::span<iovec> targets) {
  msghdr message{};
  message.msg_iov = targets.data();
  message.msg_iovlen = targets.size();
  ssize_t n = 0;
  do {
    n = ::recvmsg(fd, &message, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    return Failed(errno);
  }
  size_t wanted = 0;
  for (const iovec& target : targets) {
    wanted += target.iov_len;
  }
  IoResult result;
  result.bytes = static_cast<size_t>(n);
  result.is_end = n == 0;
  result.is_drained = result.bytes < wanted;
  return result;
}

bool PeekByte(int fd, std::byte* byte) {
  return ::recv(fd, byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

IoResult SendSome(int fd, std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  ssize_t n = 0;
  do {
    n = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    return Failed(errno);
  }
  IoResult result;
  result.bytes = static_cast<size_t>(n);
  return result;
}

void SetSocketOptions(int fd, uint32_t buffer_bytes) {
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (buffer_bytes != 0) {
    const int size =
        static_cast<int>(std::min<uint32_t>(buffer_bytes, std::numeric_limits<int>::max()));
    (void)::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    (void)::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
  }
}

void LeaveOutPacing(int fd) {
  // Every Linux has it and lets every user choose it.
  constexpr std::string_view kReno = "reno";
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
}

uint64_t RaiseDescriptorLimit(uint64_t count) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count) {
    return limit.rlim_cur;
  }
  const rlimit raised = {std::min<rlim_t>(count, limit.rlim_max), limit.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

}  // namespace ps::net
