#include "ps/proto/shard_state.h"

#include <cstring>
#include <string>

#include "shard_state_generated.h"

namespace ps::proto {

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
      b, kShardStateVersion, state.round, state.samples_done, &members));
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
  ShardState state;
  state.round = w.round();
  state.samples_done = w.samples_done();
  if (w.members() != nullptr) {
    for (const saved::MemberSteps* const saved : *w.members()) {
      MemberSteps& member = state.members.emplace_back();
      member.incarnation = Incarnation(saved->incarnation());
      member.last_step = saved->last_step();
      if (saved->applied() != nullptr) {
        for (const uint64_t key : *saved->applied()) {
          member.applied.emplace_back(key);
        }
      }
    }
  }
  return state;
}

}  // namespace ps::proto
