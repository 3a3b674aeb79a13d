#include "ps/proto/shard_state.h"

#include <cstring>
#include <string>

#include "ps/proto/codec.h"
#include "shard_state_generated.h"

namespace ps::proto {

std::vector<std::byte> EncodeShardState(const ShardState& state) {
  codec::Fbb b;
  const auto last_steps = codec::EncodeCounted(b, state.last_steps);
  b.Finish(
      saved::CreateShardState(b, kShardStateVersion, state.round, state.samples_done, last_steps));
  const auto* const bytes = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
  return {bytes, bytes + b.GetSize()};
}

Result<ShardState> DecodeShardState(std::span<const std::byte> bytes) {
  // FlatBuffers reads 64-bit numbers in place.
  std::vector<uint64_t> aligned(bytes.size() / sizeof(uint64_t) + 1);
  if (!bytes.empty()) {
    std::memcpy(aligned.data(), bytes.data(), bytes.size());
  }
  const auto* const data = reinterpret_cast<const uint8_t*>(aligned.data());
  flatbuffers::Verifier verifier(data, bytes.size());
  if (!verifier.VerifyBuffer<saved::ShardState>(nullptr)) {
    return Status::Corruption("the state of a shard is malformed");
  }
  const saved::ShardState& w = *flatbuffers::GetRoot<saved::ShardState>(data);
  if (w.version() != kShardStateVersion) {
    return Status::Unsupported(
        "the state of a shard is of version " + std::to_string(w.version()) +
        ", this program reads " + std::to_string(kShardStateVersion));
  }
  codec::Decoder d(bytes.size());
  ShardState state;
  state.round = w.round();
  state.samples_done = w.samples_done();
  state.last_steps = codec::DecodeCounted(d, w.last_steps(), "last_steps");
  return d.status().ok() ? Result<ShardState>(std::move(state))
                         : Status::Corruption(std::string(d.status().message()));
}

}  // namespace ps::proto
