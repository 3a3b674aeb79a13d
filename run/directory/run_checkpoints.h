#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/job_store.h"
#include "checkpoint/manifest.h"
#include "checkpoint/storage/storage.h"
#include "ps/base/status.h"
#include "ps/proto/state/job_state.h"
#include "run/directory/run_directory.h"

namespace ps::run {

/// Where a run keeps its checkpoints. While the store lives, no other run can use the path.
struct RunCheckpoints {
  std::unique_ptr<checkpoint::Storage> storage;
  std::shared_ptr<checkpoint::JobStore> store;  // null: the run makes no checkpoints
  std::vector<proto::KeptCheckpoint> kept;      // those that the run may use, oldest first
  std::vector<checkpoint::SetAside> set_aside;  // that exist, too, and are not used
  uint64_t next = 1;                            // above all that exist or did
};

/// For a run that begins. Errors: kInvalidArgument (the path has checkpoints), kUnavailable
/// (another run uses it), kIo; each says what to do.
Result<RunCheckpoints> OpenNewCheckpoints(const std::string& path);

/// For a run whose coordinator was killed. Errors: kUnavailable (another run uses it), kIo.
Result<RunCheckpoints> ReopenCheckpoints(const std::string& path);

/// A checkpoint that a run can go on from.
struct FoundCheckpoint {
  RunCheckpoints checkpoints;  // set_aside has what was skipped, and is not noted in the path yet
  checkpoint::Manifest manifest;
  proto::JobState state;
  std::vector<checkpoint::SetAside> skipped;  // newer ones, newest first
  // In the parameters of the checkpoint, and not counted with it. What was counted after it is no
  // part of this: resume_loss.h.
  uint64_t steps_repeated = 0;
};

/// The newest checkpoint of a path that can be read and is whole; newer ones are skipped. Changes
/// nothing: a checkpoint that can't be read now may be readable tomorrow. Errors: kUnavailable
/// and kNotFound (none can be read, with the reason for each: now, or all are damaged for good),
/// and those of OpenNewCheckpoints.
Result<FoundCheckpoint> FindNewestCheckpoint(const std::string& path);
/// The same on another storage engine, for tests that make it fail.
Result<FoundCheckpoint> FindNewestCheckpoint(
    const std::string& path, std::unique_ptr<checkpoint::Storage> storage);

/// The run goes on from what was found: a coordinator that comes back skips the same ones. To be
/// called when all else is checked. Errors: kIo.
Status NoteSkipped(const FoundCheckpoint& found);

/// Where a run keeps its checkpoints, or would.
std::string CheckpointPathOf(const RunPaths& run);

/// Whether the directory has checkpoints.
bool IsCheckpointPath(const std::string& path);

}  // namespace ps::run
