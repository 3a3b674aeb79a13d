#include "ps/proto/shard_state.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <string>

#include "ps/proto/codec.h"
#include "shard_state_generated.h"

namespace ps::proto {
namespace codec {

static void Decode(Decoder& in, const saved::MemberSteps& w, MemberSteps* member) {
  member->incarnation = Incarnation(w.incarnation());
  member->last_step = w.last_step();
  std::vector<uint64_t> applied;
  in.Scalars(w.applied(), "applied", &applied);
  for (const uint64_t key : applied) {
    member->applied.emplace_back(key);
  }
}

}  // namespace codec

std::vector<std::byte> EncodeShardState(const ShardState& state) {
  flatbuffers::FlatBufferBuilder b;
  std::vector<flatbuffers::Offset<saved::MemberSteps>> members;
  for (const MemberSteps& member : state.members) {
    std::vector<uint64_t> applied;
    for (const ChunkKey key : member.applied) {
      applied.push_back(key.value);
    }
    members.push_back(
        saved::CreateMemberStepsDirect(b, member.incarnation.value, member.last_step, &applied));
  }
  b.Finish(saved::CreateShardStateDirect(
      b, kShardStateVersion, state.round, state.samples_done, &members, state.lr_factor));
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
  constexpr flatbuffers::uoffset_t kTableDepthMax = 4;
  const auto tables_max = static_cast<flatbuffers::uoffset_t>(bytes.size() / 8 + 1);
  flatbuffers::Verifier verifier(data, bytes.size(), kTableDepthMax, tables_max);
  if (!verifier.VerifyBuffer<saved::ShardState>(nullptr)) {
    return Status::Corruption("the state of a shard is malformed");
  }
  const saved::ShardState& w = *flatbuffers::GetRoot<saved::ShardState>(data);
  if (w.version() != kShardStateVersion) {
    return Status::Unsupported(fmt::format(
        "the state of a shard is of version {}, this program reads {}",
        w.version(),
        kShardStateVersion));
  }
  ShardState state;
  state.round = w.round();
  state.samples_done = w.samples_done();
  state.lr_factor = w.lr_factor();
  if (!std::isfinite(state.lr_factor) || state.lr_factor < 0) {
    return Status::Corruption("the state of a shard: lr_factor is no factor");
  }
  codec::Decoder decoder(bytes.size());
  decoder.Tables(w.members(), "members", &state.members);
  if (!decoder.status().ok()) {
    return Status::Corruption(fmt::format("the state of a shard: {}", decoder.status().message()));
  }
  return state;
}

}  // namespace ps::proto
