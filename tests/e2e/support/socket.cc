#include "tests/e2e/support/socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ps/base/host_port.h"

namespace ps::e2e {
namespace {

sockaddr_in AddressOf(const std::string& host, uint32_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(::inet_pton(AF_INET, host.c_str(), &address.sin_addr), 1) << host;
  return address;
}

int MillisUntil(TimePoint end) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - SystemTime().Now()).count();
  return static_cast<int>(std::max<int64_t>(left, 0));
}

}  // namespace

ListeningSocket::ListeningSocket(uint16_t port)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = AddressOf("127.0.0.1", port);
  socklen_t size = sizeof(address);
  const int is_shared_with_old_connections = 1;
  ::setsockopt(
      fd_,
      SOL_SOCKET,
      SO_REUSEADDR,
      &is_shared_with_old_connections,
      sizeof(is_shared_with_old_connections));
  EXPECT_TRUE(WaitUntil([&] {  // whoever had it may be about to end
    return ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), size) == 0;
  })) << std::strerror(errno);
  EXPECT_EQ(::listen(fd_, 1), 0);
  EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
}

ListeningSocket::~ListeningSocket() {
  ::close(fd_);
}

RawConnection::RawConnection(const HostPort& address)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in raw = AddressOf(address.host, address.port);
  EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&raw), sizeof(raw)), 0)
      << address.host << ":" << address.port;
}

RawConnection::RawConnection(const std::string& socket_file)
    : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un raw{};
  raw.sun_family = AF_UNIX;
  EXPECT_LT(socket_file.size(), sizeof(raw.sun_path)) << socket_file;
  std::strncpy(raw.sun_path, socket_file.c_str(), sizeof(raw.sun_path) - 1);
  EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&raw), sizeof(raw)), 0) << socket_file;
}

RawConnection::~RawConnection() {
  ::close(fd_);
}

void RawConnection::Send(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) {
      return;
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void RawConnection::Send(const proto::Message& message) const {
  const proto::EncodedMessage encoded = proto::EncodeMessage(message, 1);
  Send(encoded.head);
  for (const auto& part : encoded.payload.parts) {
    Send(part);
  }
}

bool RawConnection::ReceiveBytes(std::span<std::byte> out, TimePoint end) const {
  while (!out.empty()) {
    pollfd ready{fd_, POLLIN, 0};
    if (::poll(&ready, 1, MillisUntil(end)) != 1) {
      return false;
    }
    const ssize_t n = ::recv(fd_, out.data(), out.size(), 0);
    if (n <= 0) {
      return false;
    }
    out = out.subspan(static_cast<size_t>(n));
  }
  return true;
}

std::optional<proto::Message> RawConnection::Receive(Duration deadline) const {
  const TimePoint end = SystemTime().Now() + deadline;
  std::array<std::byte, proto::kFrameHeaderBytes> head{};
  if (!ReceiveBytes(head, end)) {
    return std::nullopt;
  }
  const Result<proto::FrameHeader> header = proto::DecodeFrameHeader(head, proto::FrameLimits());
  if (!header.ok()) {
    ADD_FAILURE() << header.status();
    return std::nullopt;
  }
  std::vector<std::byte> flatbuffer(header->header_bytes + header->padding_bytes());
  auto payload = std::make_shared<std::vector<std::byte>>(header->payload_bytes);
  if (!ReceiveBytes(flatbuffer, end) || !ReceiveBytes(*payload, end)) {
    return std::nullopt;
  }
  proto::Payload parts;
  if (!payload->empty()) {
    parts.parts.emplace_back(*payload);
    parts.owner = payload;
  }
  Result<proto::Message> message = proto::DecodeMessage(
      *header, std::span(flatbuffer).first(header->header_bytes), std::move(parts));
  if (!message.ok()) {
    ADD_FAILURE() << message.status();
    return std::nullopt;
  }
  return std::move(message).value();
}

bool RawConnection::WaitForEnd(Duration deadline) const {
  const TimePoint end = SystemTime().Now() + deadline;
  std::byte byte{};
  while (ReceiveBytes(std::span(&byte, 1), end)) {
  }
  return SystemTime().Now() < end;
}

std::vector<std::byte> EncodeAsVersion(const proto::Message& message, uint16_t version) {
  std::vector<std::byte> bytes = proto::EncodeMessage(message, 1).head;
  const auto head = std::span(bytes).first<proto::kFrameHeaderBytes>();
  Result<proto::FrameHeader> header = proto::DecodeFrameHeader(head, proto::FrameLimits());
  EXPECT_TRUE(header.ok()) << header.status();
  header->version = version;
  proto::EncodeFrameHeader(*header, head);
  return bytes;
}

}  // namespace ps::e2e
