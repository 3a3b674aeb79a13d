#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/storage/storage.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

// A job of one shard that writes checkpoints, for tests that end it anywhere.

/// What it was told is safe.
struct Acknowledged {
  uint64_t manifest = 0;              // newest that was put
  uint64_t rows = 0;                  // journal rows that were written
  uint64_t rows_before_manifest = 0;  // of those, before the newest manifest
};

/// Chunk sizes in elements: some lie in tables, some beside them.
inline constexpr size_t kWorkloadChunks = 3;
std::vector<float> WorkloadValues(size_t chunk, uint64_t version);

/// Goes on from what is in `path` with so many checkpoints, keeping two. Ends at the first error.
Acknowledged RunWorkload(Storage& storage, const std::string& path, int checkpoints, Status* end);

/// What is in `path` is what was acknowledged, perhaps one checkpoint more, and all of it is whole:
/// ok. Else what is wrong. `is_machine_lost` excuses rows after the newest manifest.
Status CheckWorkload(
    Storage& storage,
    const std::string& path,
    const Acknowledged& acknowledged,
    bool is_machine_lost);

/// Whether a checkpoint is whole, read beside whoever writes: ok, or what is damaged. A value that
/// is read and is wrong is kInvalidArgument, which damage must never lead to.
Status CheckCheckpoint(Storage& storage, const std::string& path, uint64_t id);

}  // namespace ps::checkpoint
