#pragma once

#include <sys/uio.h>

#include <asio/error_code.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <span>
#include <string>

#include "ps/base/io_result.h"
#include "ps/base/status.h"

namespace ps::net {

/// TCP, or a Unix socket of this machine.
using StreamSocket = asio::generic::stream_protocol::socket;

/// The other side of a connected socket.
struct Remote {
  std::string address;  // "HOST:PORT", "socket file"; "?" when it is gone already
  std::string host;     // the same without the port
  bool is_same_machine = false;
};

Remote RemoteOf(const StreamSocket& socket);

/// The reaction that a socket error asks for, with the system's words for it.
Status ToStatus(const asio::error_code& error);

// One non-blocking system call on a socket each.
IoResult ReceiveSome(int fd, std::span<iovec> targets);
IoResult SendSome(int fd, std::span<iovec> parts);
/// Looks at the next byte without taking it. False: there is none, or no more.
bool PeekByte(int fd, std::byte* byte);

/// TCP_NODELAY where there is TCP, and the kernel's buffers if `buffer_bytes` is not 0. Failures
/// are harmless and ignored.
void SetSocketOptions(int fd, uint32_t buffer_bytes);

/// For a peer on this machine: the plainest congestion control, which sends as soon as the window
/// allows. One that paces, as BBR does, sets a timer for every few segments of a path that has no
/// queue to spare. Failure is harmless and ignored.
void LeaveOutPacing(int fd);

/// Raises the process's limit of descriptors to `count`, or as far as the system allows; most start
/// with 1,024. Returns the limit.
uint64_t RaiseDescriptorLimit(uint64_t count);

}  // namespace ps::net
