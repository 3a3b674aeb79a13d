#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/job_store.h"
#include "checkpoint/manifest.h"
#include "checkpoint/storage.h"
#include "ps/base/status.h"
#include "ps/proto/job_state.h"
#include "psctl/run_directory.h"

namespace ps::psctl {

/// Where a run keeps its checkpoints. While the object lives, no other run can use the path.
struct RunCheckpoints {
  std::unique_ptr<checkpoint::Storage> storage;
  std::unique_ptr<checkpoint::JobStore> store;  // null: the run makes no checkpoints
  std::vector<proto::KeptCheckpoint> kept;      // those that exist, oldest first
  uint64_t next = 1;
};

/// For a run that begins. Errors: kInvalidArgument (the path has checkpoints), kUnavailable
/// (another run uses it), kIo; each says what to do.
Result<RunCheckpoints> OpenNewCheckpoints(const std::string& path);

/// For a run whose coordinator was killed. Errors: kUnavailable (another run uses it), kIo.
Result<RunCheckpoints> ReopenCheckpoints(const std::string& path);

/// A checkpoint that a run can go on from.
struct FoundCheckpoint {
  RunCheckpoints checkpoints;
  checkpoint::Manifest manifest;
  proto::JobState state;
  std::vector<std::string> skipped;  // newer ones, each with the reason
  // In the parameters of the checkpoint, and not counted with it. What was counted after it is no
  // part of this: resume_loss.h.
  uint64_t steps_repeated = 0;
};

/// The newest checkpoint of a path that is whole; newer ones that are not are dropped. Errors:
/// kNotFound (none is), and those of OpenNewCheckpoints.
Result<FoundCheckpoint> FindNewestCheckpoint(const std::string& path);

/// Where a run keeps its checkpoints, or would.
std::string CheckpointPathOf(const RunPaths& run);

/// Whether the directory has checkpoints.
bool IsCheckpointPath(const std::string& path);

}  // namespace ps::psctl
