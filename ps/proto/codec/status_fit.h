#pragma once

#include "ps/proto/messages.h"

namespace ps::proto {

/// Whether a frame might have no room for all of it.
bool MayBeTooLong(const JobStatus& status);

/// What a frame has no room for is left out, the least wanted first: workers that have left, old
/// epochs, the clocks behind WorkerRow::clock.
JobStatus Fitted(JobStatus status);

}  // namespace ps::proto
