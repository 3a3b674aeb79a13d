#pragma once

#include <cstdint>

#include "ps/base/buffer.h"
#include "tests/bench/harness.h"
#include "tests/bench/raw_socket.h"

namespace ps::bench {

/// What a push or a pull moves.
struct Shape {
  uint32_t chunks = 1;
  uint32_t chunk_bytes = 4096;

  uint64_t bytes() const { return uint64_t{chunks} * chunk_bytes; }
};

/// What moving it took.
struct Outcome {
  double gigabytes_per_s = 0;
  double cpu_s_per_gigabyte = 0;
};

/// What happens from its construction on.
class Meter {
 public:
  Outcome Read(uint64_t bytes) const {
    const double gigabytes = static_cast<double>(bytes) * 1e-9;
    return {gigabytes / (WallSeconds() - wall_s_), (CpuSeconds() - cpu_s_) / gigabytes};
  }

 private:
  double wall_s_ = WallSeconds();
  double cpu_s_ = CpuSeconds();
};

/// One side sends the bytes in messages of at most 1 MiB, the other copies each to its place and
/// answers with 64 bytes. A pull turns the direction of the bulk round.
class RawLoop {
 public:
  RawLoop(const Shape& shape, bool is_pull);

  /// Over a connection of its own.
  Outcome Run(uint64_t steps, TcpPair::Pacing pacing);

 private:
  void BulkOut(int fd);
  void BulkIn(int fd);

  const bool is_pull_;
  Buffer source_;
  Buffer target_;
  Buffer landing_;
};

}  // namespace ps::bench
