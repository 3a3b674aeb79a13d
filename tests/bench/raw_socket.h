#pragma once

#include <cstddef>

namespace ps::bench {

// Blocking sockets as plain as can be: the yardstick of the network benchmarks.

bool WriteAll(int fd, const std::byte* data, size_t size);
bool ReadAll(int fd, std::byte* data, size_t size);

/// Two connected TCP sockets on loopback, without Nagle's delay; with the system's congestion
/// control, or one that every system has and that does not pace.
class TcpPair {
 public:
  enum class Pacing { kSystem, kNone };

  explicit TcpPair(Pacing pacing = Pacing::kSystem);
  TcpPair(const TcpPair&) = delete;
  TcpPair& operator=(const TcpPair&) = delete;
  ~TcpPair();

  int near = -1;
  int far = -1;
};

}  // namespace ps::bench
