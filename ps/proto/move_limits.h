#pragma once

#include <algorithm>
#include <cstdint>

#include "ps/proto/limits.h"

namespace ps::proto {

// A ChunksOffer is the one message whose size grows with the product of workers and chunks, so no
// limit of either keeps it within a frame: the coordinator bounds the chunks of a move by the
// workers that there are, and those who want to join while chunks move by the chunks
// (MoveDesk, JoinDesk). A new message that lists something for each worker and each chunk needs
// such a rule, too, and a row in LimitsTest.EveryListTravelsAtItsLimit.

inline constexpr uint64_t kOfferedKeyBytes = 64;      // OfferedChunk, without `ahead`
inline constexpr uint64_t kOfferedMemberBytes = 160;  // OfferedMember, StagedStep without `keys`
inline constexpr uint64_t kOfferedPairBytes = 16;     // of `ahead`, and of a StagedStep's `keys`
inline constexpr uint64_t kOfferBytesMax = kHeaderBytesMax - kTableBytesMax;

/// So many workers, those who are gone and not resolved among them, may have steps in `keys` chunks
/// that are offered together.
constexpr uint64_t OfferMembersMax(uint64_t keys) {
  const uint64_t fixed = keys * kOfferedKeyBytes;
  return fixed >= kOfferBytesMax
             ? 0
             : (kOfferBytesMax - fixed) / (kOfferedMemberBytes + keys * kOfferedPairBytes);
}

/// So many chunks may be offered together when `members` workers have steps in them; one at least.
constexpr uint64_t OfferKeysMax(uint64_t members) {
  const uint64_t fixed = members * kOfferedMemberBytes;
  const uint64_t each = kOfferedKeyBytes + members * kOfferedPairBytes;
  return fixed >= kOfferBytesMax ? 1 : std::max<uint64_t>((kOfferBytesMax - fixed) / each, 1);
}

static_assert(OfferMembersMax(1) >= 2 * kSeatsMax, "one chunk can always move");
static_assert(OfferMembersMax(OfferKeysMax(kSeatsMax)) >= kSeatsMax);

}  // namespace ps::proto
