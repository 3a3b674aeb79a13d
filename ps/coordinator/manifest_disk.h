#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/manifest.h"

namespace ps::coordinator {

/// A checkpoint to be committed: it exists when its manifest does.
struct ManifestWrite {
  uint64_t checkpoint = 0;
  checkpoint::Manifest manifest;  // the disk adds the time
  std::vector<uint64_t> dropped;  // manifests to be deleted then
};

/// What the coordinator asks of its disk. Nothing here waits: the answer comes back to the core as
/// an event.
class ManifestDisk {
 public:
  virtual ~ManifestDisk() = default;
  /// The number of this checkpoint is used, whatever becomes of it. Not answered.
  virtual void NoteOpened(uint64_t checkpoint) = 0;
  virtual void Commit(ManifestWrite write) = 0;  // -> CoordinatorCore::OnManifestWritten
  virtual void Read(uint64_t checkpoint) = 0;    // -> CoordinatorCore::OnManifestRead
  /// The checkpoint is of no use: its manifest is to be deleted. Not answered.
  virtual void Drop(uint64_t checkpoint) = 0;
};

}  // namespace ps::coordinator
