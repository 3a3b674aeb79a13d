#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/storage/storage.h"
#include "ps/base/status.h"
#include "ps/store/object_store.h"

namespace ps::checkpoint {

struct DownloadReport {
  CheckpointId id = 0;               // that is in the path now
  CheckpointId newest = 0;           // number that the store has, whole or not
  std::vector<std::string> skipped;  // newer ones, each with the reason
  uint64_t received_bytes = 0;
  uint64_t present_bytes = 0;  // in files that an earlier attempt had left
};

/// Told after each object: bytes so far, and of the checkpoint.
using OnReceived = std::function<void(uint64_t received, uint64_t total)>;

/// Makes `path` a checkpoint path with the newest checkpoint of the store that is whole: every
/// object is checked by its digest, then every value of the checkpoint. A checkpoint that is
/// damaged or misses something is skipped. An attempt that was cut off goes on where it was.
/// Errors: kInvalidArgument when `path` has checkpoints; kNotFound when none in the store is whole,
/// with the reasons; those of the store and of the disk.
Result<DownloadReport> Download(
    store::ObjectStore& store,
    Storage& storage,
    const std::string& path,
    const OnReceived& on_received);

/// The manifest of a copy. Errors: kNotFound, kCorruption, kUnsupported, those of the store.
Result<Manifest> ReadCopiedManifest(store::ObjectStore& store, CheckpointId id);

/// Fetches everything that a copy names and compares digests. Empty: it is whole. When the store
/// can't be reached, that is the last one.
std::vector<Damage> VerifyCopy(store::ObjectStore& store, CheckpointId id);

}  // namespace ps::checkpoint
