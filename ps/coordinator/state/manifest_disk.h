#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/job_store.h"
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
  /// From now on these are the checkpoints that the job makes no use of. None is deleted: the one
  /// thing that deletes a manifest is ManifestWrite::dropped. Not answered.
  virtual void NoteSetAside(std::vector<checkpoint::SetAside> all) = 0;
};

}  // namespace ps::coordinator
