#pragma once

#include <string>
#include <vector>

#include "ps/base/status.h"
#include "run/directory/run_directory.h"

namespace ps::run {

/// A run whose psctl is alive.
struct RunningJob {
  std::string name;  // the job's
  RunPaths paths;
};

/// How `psctl status` finds runs: one symbolic link per run in a directory of the user's own, and
/// whatever lies in ./runs. What is stale (the lock of the run is free) is skipped, and its link
/// removed. The directory is used only while it belongs to the user and nobody else may write to
/// it: in /tmp anybody can make one of that name.
class RunRegistry {
 public:
  /// `directory`: DefaultDirectory(), or a test's. `scanned`: parents of run directories to look
  /// into.
  RunRegistry(std::string directory, std::vector<std::string> scanned)
      : directory_(std::move(directory)), scanned_(std::move(scanned)) {}

  /// /tmp/spotps-<uid>.
  static std::string DefaultDirectory();

  /// Errors: kIo, kInvalidArgument (the directory is somebody else's). A run goes on without it.
  Status Add(const RunPaths& run) const;
  void Remove(const RunPaths& run) const;

  /// Sorted by path, each once.
  std::vector<RunningJob> Find() const;

  /// The run directories below the scanned parents, ended ones too, and elsewhere the running ones
  /// and those of runs on rented machines (IsElsewhere); the oldest first, as far as their names
  /// tell.
  std::vector<RunPaths> All() const;

  /// Whether the run's directory lies in a scanned parent itself: it is not one that goes on
  /// elsewhere, or that a link there leads to.
  bool IsHere(const RunPaths& run) const;

  /// "/home/a/runs": the scanned parents.
  std::string ScannedText() const;

  /// The one run that `name` means: a run directory (running or not), the name of a run directory,
  /// or the name of a running job. Errors: kNotFound, kInvalidArgument (several), with the
  /// candidates.
  Result<RunPaths> Resolve(const std::string& name) const;

 private:
  Status CheckDirectory() const;

  std::string directory_;
  std::vector<std::string> scanned_;
};

}  // namespace ps::run
