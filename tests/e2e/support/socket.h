#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ps/base/host_port.h"
#include "ps/proto/messages.h"
#include "tests/e2e/support/poll.h"

namespace ps::e2e {

/// Takes a port of this machine: one that no test knew before, or the one that is named.
class ListeningSocket {
 public:
  explicit ListeningSocket(uint16_t port = 0);
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;
  ~ListeningSocket();

  uint16_t port() const { return port_; }

 private:
  int fd_ = -1;
  uint16_t port_ = 0;
};

/// A connection that says what it likes: no handshake, no checks.
class RawConnection {
 public:
  explicit RawConnection(const HostPort& address);
  explicit RawConnection(const std::string& socket_file);
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;
  ~RawConnection();

  /// Sends what the other side takes; a connection that is closed already takes nothing.
  void Send(std::span<const std::byte> bytes) const;
  void Send(const proto::Message& message) const;

  /// The next whole frame; nothing when the connection ends before, or none comes in time.
  std::optional<proto::Message> Receive(Duration deadline = kPatience) const;
  /// Whether the other side ends the connection in time, whatever it sends before.
  bool WaitForEnd(Duration deadline = kPatience) const;

 private:
  /// Fills `out`. False at the end of the connection or of the time.
  bool ReceiveBytes(std::span<std::byte> out, TimePoint end) const;

  int fd_ = -1;
};

/// The bytes of a message, as if its sender spoke another version of the protocol.
std::vector<std::byte> EncodeAsVersion(const proto::Message& message, uint16_t version);

}  // namespace ps::e2e
