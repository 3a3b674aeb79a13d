#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "run/report/script_parts.h"
#include "worker/data/dataset.h"
#include "worker/model/model.h"

namespace ps::run {

/// What a job's config leads to: what is in its dataset, and its model.
struct JobParts {
  worker::DatasetInfo data;
  worker::Model model;                // without layers where a program computes
  std::optional<ScriptParts> script;  // of worker.program
  std::string taken;                  // for people: what the model has of model.from
};

/// The job with what it leaves to worker.program; as it is without one. Errors: as LoadParts.
Result<proto::JobConfig> CompleteJob(
    const proto::JobConfig& config,
    const JobParts& parts,
    const std::string& path,
    const std::vector<proto::ConfigOverride>& overrides);

/// Reads the dataset's headers, builds the model and looks whether model.from fits it. `config` is
/// that of the job file `path` with the overrides. Errors: as LoadJobConfig, with file, line and
/// column where a field is at fault; kIo and kCorruption for files of the dataset and of the model.
/// `known`: the data's fingerprint, if a worker has read it; then no data is read in full. With
/// worker.program: runs the program, or reads what it has left (model.from).
Result<JobParts> LoadParts(
    const proto::JobConfig& config,
    const std::string& path,
    const std::vector<proto::ConfigOverride>& overrides = {},
    const proto::DatasetFingerprint* known = nullptr);

/// Looks at every value of the dataset, and of model.from. Errors: as
/// LoadParts.
Status CheckData(
    const proto::JobConfig& config,
    const std::string& path,
    const std::vector<proto::ConfigOverride>& overrides);

}  // namespace ps::run
