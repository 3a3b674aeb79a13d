#pragma once

#include <memory>
#include <string>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "worker/script/description.h"

namespace ps::run {

/// What the program of a job (worker.program) says that it trains, and the file with that and with
/// the first values.
class ScriptParts {
 public:
  /// Runs the program once, here, so that it describes itself. What it prints is shown when it
  /// fails. Errors: kInvalidArgument that begins with worker.program, worker.directory or data;
  /// kDeadlineExceeded after fleet.join_timeout_s; kIo.
  static Result<ScriptParts> Ask(const proto::JobConfig& config);
  /// From a file that an earlier Ask has left. Errors: those of ReadDescription.
  static Result<ScriptParts> Read(const std::string& path);

  const worker::Description& description() const { return description_; }

  /// The first values are those of a model file, in place of the program's own; what nobody trains
  /// has to be the same in both, where it is in the file. Errors: those of ModelFileSource, which
  /// begin with model.from.
  Status TakeValuesFrom(const std::string& model_file);

  /// Leaves a copy of the file there, with the values that were taken. Errors: kIo with the path;
  /// those of the model file.
  Status KeepAs(const std::string& path) const;

  /// The job with what it leaves to the program: the numbers of samples, the folder as an absolute
  /// path, and the optimizer but for its schedule and clipping, unless the job names one. Errors:
  /// kInvalidArgument that begins with the field.
  Result<proto::JobConfig> Complete(const proto::JobConfig& config, bool names_optimizer) const;

  /// Why the program's own optimizer is another one than that of `config`, which is the servers';
  /// empty: they are the same, or the servers have another purpose.
  std::string OptimizerNote(const proto::JobConfig& config) const;

 private:
  class Folder;

  /// The file with what the model has besides what is trained; empty: nothing.
  std::string KeptPath() const;
  Status KeepValuesAs(const std::string& path) const;
  Result<proto::OptimizerConfig> OwnOptimizer(const proto::JobConfig& config) const;

  worker::Description description_;
  std::string file_;
  std::string values_from_;               // empty: of file_
  std::shared_ptr<const Folder> folder_;  // of the file, goes with the last copy; null: it stays
};

/// The file of what nobody trains of a model, of which `described` is the description that a run
/// keeps; empty: there is nothing.
std::string FrozenTensorsOf(const std::string& described);

}  // namespace ps::run
