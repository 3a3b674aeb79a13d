#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/state/job_state.h"

// Private to the saved form of a job's state: some of its parts (StatePart) as a FlatBuffer.

namespace ps::proto {

std::vector<std::byte> EncodeParts(const JobState& state, uint32_t parts);

/// The opposite, of bytes that nobody has looked at. Errors: kCorruption.
Result<JobState> DecodeParts(std::span<const std::byte> body, uint32_t parts);

}  // namespace ps::proto
