#pragma once

#include <memory>
#include <string>

#include "provisioner/fleet/launcher.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "run/directory/run_directory.h"

namespace ps::psctl {

/// A run that has ended, and left a directory.
struct ChildRun {
  run::RunPaths run;
  Status end;  // kUnavailable with its output where it did not end well
};

/// Runs of jobs as children of this process, one after the other: `psctl train`, so that they are
/// runs like any other. Their directories lie in a temporary folder, which goes with the object.
/// Ctrl-C ends the run under way, and no other is begun.
class ChildRuns {
 public:
  ChildRuns();
  ChildRuns(const ChildRuns&) = delete;
  ChildRuns& operator=(const ChildRuns&) = delete;
  ~ChildRuns();

  /// Runs the job to its end. A run that outlasts run.seconds_max, where it has one, by a minute
  /// and a half is killed. Errors: kIo (no folder), kUnavailable (it left no directory, with its
  /// output), kDeadlineExceeded, kCancelled.
  Result<ChildRun> Run(proto::JobConfig config);

 private:
  Status Train(const std::string& folder, double seconds_max);

  std::string folder_;  // empty: it could not be made
  const std::unique_ptr<provisioner::Launcher> launcher_;
  int count_ = 0;
};

}  // namespace ps::psctl
