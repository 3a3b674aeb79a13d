#include "ps/proto/state/shard_state.h"

#include <fmt/core.h>

#include <cmath>
#include <string>

#include "ps/proto/codec/pack.h"
#include "ps/proto/codec/saved_views.h"
#include "ps/proto/codec/unpack.h"
#include "shard_state_generated.h"

namespace ps::proto {

template <MaybeConst<MemberSteps> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"last_step">(m.last_step),
      Field<"applied">(m.applied));
}

template <MaybeConst<ShardState> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Constant<"version", kShardStateVersion>(),
      Field<"round">(m.round),
      Field<"samples_done">(m.samples_done),
      Field<"members">(m.members),
      Field<"lr_factor">(m.lr_factor));
}

void Check(auto& d, const ShardState& m) {
  if (!std::isfinite(m.lr_factor) || m.lr_factor < 0) {
    d.Fail("lr_factor", "is no factor");
  }
}

std::vector<std::byte> EncodeShardState(const ShardState& state) {
  codec::Fbb builder;
  builder.Finish(codec::Pack<saved::ShardState>(builder, state));
  const auto* const bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {bytes, bytes + builder.GetSize()};
}

Result<ShardState> DecodeShardState(std::span<const std::byte> bytes) {
  std::vector<uint64_t> copy;
  const auto* const root = codec::VerifiedRoot<saved::ShardState>(codec::Aligned(bytes, &copy));
  if (root == nullptr) {
    return Status::Corruption("the state of a shard is malformed");
  }
  if (root->version() < kOldestShardStateVersion || root->version() > kShardStateVersion) {
    return Status::Unsupported(fmt::format(
        "the state of a shard is of version {}, this program reads {} to {}",
        root->version(),
        kOldestShardStateVersion,
        kShardStateVersion));
  }
  ShardState state;
  codec::Decoder decoder(bytes.size());
  codec::Unpack(decoder, *root, state);
  if (!decoder.ok()) {
    return Status::Corruption(fmt::format("the state of a shard: {}", decoder.status().message()));
  }
  return state;
}

}  // namespace ps::proto
