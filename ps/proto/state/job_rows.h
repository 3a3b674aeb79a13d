#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/state/job_state.h"

namespace ps::proto {

// A JobState as many small rows: an event changes a few of them. All of them together are the
// state; job_state.fbs is the form of each, with only its own piece in it.

/// What a row holds. Its number says which one.
enum class RowKind : uint8_t {
  kJob,             // the config
  kPlacement,       //
  kTotals,          // whatever is there once and is small: phase, counters, newest numbers, ...
  kTimes,           // age, trained, is_trained
  kShard,           // of a ShardId
  kMember,          // of an Incarnation
  kDeparture,       // of an Incarnation
  kGone,            // by place in the order in which they went: MembershipState::gone_before + i
  kAcknowledged,    // of a ShardId
  kSeat,            // of a WorkerId: added, expected, ends, launches
  kKill,            // of a WorkerId
  kLease,           // of a LeaseId
  kEpoch,           // what is counted is not in it: it follows from fresh, returned and leased
  kEvaluationPart,  // PartNumber(epoch, place)
  kResult,          // of an epoch, or kLastResult
  kRoundEntry,      // of an Incarnation
  kCommit,          //
  kCommitAck,       // of a ShardId
  kPolicy,          //
  kEvent,           // by place in their order: EventsState::before + i
};
inline constexpr size_t kRowKinds = 20;

struct RowId {
  RowKind kind = RowKind::kJob;
  uint64_t number = 0;

  friend auto operator<=>(const RowId&, const RowId&) = default;
};

/// The number of a row of RowKind::kEvaluationPart.
constexpr uint64_t PartNumber(uint32_t epoch, size_t place) {
  return (uint64_t{epoch} << 32) | place;
}

/// The number of the row of RowKind::kResult that has the result of the model that is left.
inline constexpr uint64_t kLastResult = uint64_t{1} << 32;

/// "member/0000000000000007". Keys of one kind sort as their numbers.
std::string RowKey(RowId id);

/// All rows that the state has.
std::vector<RowId> ListRows(const JobState& state);

/// The row as bytes; nothing when the state has no such piece. Reads that piece alone.
std::optional<std::vector<std::byte>> EncodeRow(const JobState& state, RowId id);

struct SavedRow {
  std::string_view key;
  std::span<const std::byte> value;
};

/// The state that all of its rows make, sorted by key. What the values mean together is for the
/// coordinator to check. Errors: kCorruption naming the row that is damaged, missing, or at odds
/// with others.
Result<JobState> MergeRows(std::span<const SavedRow> rows);

}  // namespace ps::proto
