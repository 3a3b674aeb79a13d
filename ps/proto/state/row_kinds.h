#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ps/proto/state/job_rows.h"

// Private to the rows of a job's state: what each kind of them takes of a state, and gives back.

namespace ps::proto {

/// How rows of one kind come from a state, and how a state is made of them.
struct RowKindInfo {
  std::string_view name;
  uint32_t parts = 0;  // of a JobState, that a row has: StatePart
  /// Every state has exactly one, number 0.
  bool is_once = false;
  /// The numbers of all rows.
  void (*list)(const JobState& state, std::vector<uint64_t>* numbers) = nullptr;
  /// Copies the piece into an empty state. False when there is no such piece.
  bool (*copy)(const JobState& state, uint64_t number, JobState* piece) = nullptr;
  /// Moves the piece to where it belongs. False when it is not the one that is due there.
  bool (*merge)(JobState* piece, uint64_t number, JobState* state) = nullptr;
};

/// By RowKind.
extern const std::array<RowKindInfo, kRowKinds> kRowKindInfos;

}  // namespace ps::proto
