#pragma once

#include <future>
#include <map>
#include <string>
#include <utility>

#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "worker/data/load_progress.h"
#include "worker/data/samples.h"

namespace ps::run {

/// Finds out, on a thread of its own beside the training, what the run's model file is to say of
/// itself: pictures have to be read for it. What it finds is left in the run's directory. Thread:
/// the owner's.
class ModelDescriber {
 public:
  /// `data`: of the job, as JobParts has it. `path`: RunPaths::model_card. All that is pointed to
  /// outlives the object.
  ModelDescriber(
      const proto::JobConfig* config,
      const worker::DatasetInfo* data,
      std::string path,
      const Logger* log)
      : config_(*config), data_(*data), path_(std::move(path)), log_(*log) {}

  ModelDescriber(const ModelDescriber&) = delete;
  ModelDescriber& operator=(const ModelDescriber&) = delete;
  ~ModelDescriber();

  /// Once. Of a run that goes on, what is in its directory is taken.
  void Start();

  /// What was found, for the metadata of the file; empty, with a line in the log: it can't be, or
  /// takes longer than some seconds still.
  std::map<std::string, std::string> Take();

 private:
  using Card = std::map<std::string, std::string>;

  Result<Card> Find();

  const proto::JobConfig& config_;
  const worker::DatasetInfo& data_;
  const std::string path_;
  const Logger& log_;
  worker::LoadProgress progress_;
  std::shared_future<Result<Card>> found_;
};

}  // namespace ps::run
