#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "job_state_generated.h"
#include "ps/proto/codec.h"
#include "ps/proto/job_state.h"

// Private to the saved form of a job's state: how its parts turn into their tables and back, as in
// codec.h.

namespace ps::proto::codec {

// codec_ledger.cc
Offset<saved::EpochRecord> Encode(Fbb& b, const EpochRecord& m);
Offset<saved::LedgerState> Encode(Fbb& b, const LedgerState& m);
Offset<saved::Evaluation> Encode(Fbb& b, const Evaluation& m);
Offset<saved::EvaluationsState> Encode(Fbb& b, const EvaluationsState& m);
Offset<saved::RoundsState> Encode(Fbb& b, const RoundsState& m);
void Decode(Decoder& d, const saved::EpochRecord& w, EpochRecord* m);
void Decode(Decoder& d, const saved::LedgerState& w, LedgerState* m);
void Decode(Decoder& d, const saved::Evaluation& w, Evaluation* m);
void Decode(Decoder& d, const saved::EvaluationsState& w, EvaluationsState* m);
void Decode(Decoder& d, const saved::RoundsState& w, RoundsState* m);

// codec_members.cc
Offset<saved::MemberRecord> Encode(Fbb& b, const MemberRecord& m);
Offset<saved::DepartureRecord> Encode(Fbb& b, const DepartureRecord& m);
Offset<saved::GoneWorker> Encode(Fbb& b, const GoneWorker& m);
Offset<saved::MembershipState> Encode(Fbb& b, const MembershipState& m);
Offset<saved::SeatsState> Encode(Fbb& b, const SeatsState& m);
Offset<saved::ShardRecord> Encode(Fbb& b, const ShardRecord& m);
Offset<saved::PlaceRecord> Encode(Fbb& b, const PlaceRecord& m);
void Decode(Decoder& d, const saved::MemberRecord& w, MemberRecord* m);
void Decode(Decoder& d, const saved::DepartureRecord& w, DepartureRecord* m);
void Decode(Decoder& d, const saved::GoneWorker& w, GoneWorker* m);
void Decode(Decoder& d, const saved::MembershipState& w, MembershipState* m);
void Decode(Decoder& d, const saved::SeatsState& w, SeatsState* m);
void Decode(Decoder& d, const saved::ShardRecord& w, ShardRecord* m);
void Decode(Decoder& d, const saved::PlaceRecord& w, PlaceRecord* m);

/// What of a JobState is in its table.
enum StatePart : uint32_t {
  kConfigPart = 1U << 0,
  kPlacementPart = 1U << 1,
  kTotalsPart = 1U << 2,  // with the newest numbers, which are in the tables of other parts
  kTimesPart = 1U << 3,
  kShardsPart = 1U << 4,
  kMembershipPart = 1U << 5,
  kSeatsPart = 1U << 6,
  kLedgerPart = 1U << 7,
  kEvaluationsPart = 1U << 8,
  kRoundsPart = 1U << 9,
  kKillsPart = 1U << 10,
  kAllParts = (1U << 11) - 1,
};

// job_state.cc
Offset<saved::JobState> Encode(Fbb& b, const JobState& m, uint32_t parts);

/// Decodes a FlatBuffer that nobody has looked at. Errors: kCorruption.
Result<JobState> DecodeParts(std::span<const std::byte> body, uint32_t parts);

/// A text that the decoder takes: what is over its limit is cut off.
flatbuffers::Offset<flatbuffers::String> EncodeText(Fbb& b, std::string_view text);

/// A table of each, in order.
template <typename Range>
auto MakeList(Fbb& b, const Range& in) {
  std::vector<decltype(Encode(b, *in.begin()))> offsets;
  for (const auto& value : in) {
    offsets.push_back(Encode(b, value));
  }
  return b.CreateVector(offsets);
}

/// The same of a map's values; their keys are in them.
template <typename Map>
auto MakeListOfValues(Fbb& b, const Map& in) {
  std::vector<decltype(Encode(b, in.begin()->second))> offsets;
  for (const auto& [key, value] : in) {
    offsets.push_back(Encode(b, value));
  }
  return b.CreateVector(offsets);
}

template <typename Key, typename Value, typename Map>
void PutOnce(Decoder& d, const char* field, Key key, Value value, Map* map) {
  if (!map->emplace(key, std::move(value)).second) {
    d.Fail(fmt::format("{} has {} twice", field, key.value));
  }
}

}  // namespace ps::proto::codec
