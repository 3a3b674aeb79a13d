#pragma once

#include <compare>
#include <cstdint>
#include <ostream>

namespace ps {

/// An integer that only compares with its own kind.
template <typename Tag, typename Rep>
struct Id {
  Rep value{};

  constexpr Id() = default;

  constexpr explicit Id(Rep v) : value(v) {}

  friend constexpr auto operator<=>(Id, Id) = default;

  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << +id.value; }
};

/// A worker's seat in the job: small, dense, reused by a replacement.
using WorkerId = Id<struct WorkerIdTag, uint32_t>;
/// One holder of a seat. Grows with every join of the run, never reused; 0 means none. This is the
/// fencing number that pushes carry, so a replacement never inherits its predecessor's dedupe
/// state.
using Incarnation = Id<struct IncarnationTag, uint64_t>;
/// One start of a server or of a worker by the fleet. Grows with every start of the job, never
/// reused; 0 means none: somebody has started the process by hand. It says of messages, ends and
/// notes which process they are of, wherever that runs.
using LaunchId = Id<struct LaunchIdTag, uint64_t>;
/// A server shard: the key range that one server thread owns.
using ShardId = Id<struct ShardIdTag, uint32_t>;
/// Number of a membership. Grows by one with every change of who takes part.
using Generation = Id<struct GenerationTag, uint64_t>;
/// Number of a sample lease. Grows with every grant of the run; 0 means none.
using LeaseId = Id<struct LeaseIdTag, uint64_t>;
/// Tensor index in the upper 32 bits, chunk index within the tensor in the lower 32.
using ChunkKey = Id<struct ChunkKeyTag, uint64_t>;

constexpr ChunkKey MakeChunkKey(uint32_t tensor, uint32_t chunk) {
  return ChunkKey((uint64_t{tensor} << 32) | chunk);
}

constexpr uint32_t TensorOf(ChunkKey key) {
  return static_cast<uint32_t>(key.value >> 32);
}

constexpr uint32_t ChunkOf(ChunkKey key) {
  return static_cast<uint32_t>(key.value);
}

/// Steps of one incarnation count 1, 2, 3, ...; 0 means "none yet".
using Step = uint64_t;
/// Number of updates applied to a chunk; the initial value is version 0.
using Version = uint64_t;

}  // namespace ps
