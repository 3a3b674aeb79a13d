#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/coordinator/state/manifest_disk.h"
#include "ps/coordinator/state/model_files.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/state/job_state.h"

namespace ps::coordinator {

using proto::JobPhase;
using proto::JobState;

class JobJournal;

/// What a job goes on from when it is resumed: a state that another run has saved.
struct ResumeFrom {
  JobState state;  // as it was saved with the checkpoint
  uint64_t checkpoint = 0;
};

struct CoordinatorOptions {
  proto::JobConfig config;
  std::vector<TensorSpec> tensors;  // of the resolved model
  uint64_t train_samples = 0;       // of an epoch, > 0
  uint64_t test_samples = 0;        // 0, and none for validation: nothing is evaluated
  uint64_t validation_samples = 0;  // of the training data, beside train_samples
  int64_t classes = 0;              // that a sample may be of; 0: not known
  uint32_t frozen_crc = 0;          // of what worker.program keeps; 0: nothing, or not known
  uint32_t seats_max = proto::kSeatsMax;
  std::string run_directory;  // for JobStatus only
  std::string software;       // name and version, for the model's file
  // All outlive the job.
  ModelSource* model_source = nullptr;             // null: the initial values are drawn
  ModelSink* model_sink = nullptr;                 // null: no model is left at the end
  ManifestDisk* manifests = nullptr;               // null: no checkpoints
  const JobJournal* journal = nullptr;             // null: nobody takes the rows
  std::vector<proto::KeptCheckpoint> checkpoints;  // that exist already, oldest first
  uint64_t next_checkpoint = 1;
  std::vector<checkpoint::SetAside> set_aside;  // that exist, too, and are not used
  std::optional<ResumeFrom> resume;
};

/// The state of a job that has not begun.
JobState MakeJobState(const CoordinatorOptions& options);

/// Gives a state that a journal had the checkpoints that exist: its coordinator may have ended
/// between a manifest and the row that tells of it.
void TakeCheckpointsOf(const CoordinatorOptions& options, JobState* state);

/// Whether the parts of a state fit together and the job can go on from it. Errors:
/// kInvalidArgument (it is another job's), kCorruption naming what does not fit.
Status CheckJobState(const JobState& state, const CoordinatorOptions& options);

/// Whether a job of config `before` may go on from `saved` as `now` says. What an epoch's ledger
/// has counted is places in the order of its samples, so all that this order depends on stays until
/// the epochs that have begun are counted in full: train.seed here, the data itself when a worker
/// joins (MakeJobState takes over what it was), its size by CheckJobState. Whatever EpochOrder
/// comes to depend on belongs here. Errors: kInvalidArgument saying what to do.
Status CheckSameOrder(
    const JobState& saved,
    const proto::JobConfig& before,
    const proto::JobConfig& now,
    uint64_t train_samples);

/// As CheckJobState, of a state that is this job's own.
Status CheckParts(const JobState& state, const CoordinatorOptions& options);

}  // namespace ps::coordinator
