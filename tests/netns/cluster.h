#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/files/profile.h"
#include "ps/proto/job/job_config.h"
#include "tests/base/temporary_folder.h"

namespace ps::netns {

/// One worker as it is made to be.
struct WorkerSpec {
  double step_ms = 100;  // computation of a step
  int minibatch = 32;

  /// What profiles call this kind.
  std::string type() const { return "step" + std::to_string(static_cast<int>(step_ms)); }
};

/// What one run is about.
struct Cell {
  double server_mbit_per_s = 0;  // of each server's link, each way; 0: no limit
  int servers = 1;
  bool overlap = true;
  std::vector<WorkerSpec> workers;
  double seconds = 8;       // of training, at most
  double stop_at_loss = 0;  // 0: none
};

struct CellResult {
  proto::JobProfile profile;  // with one fleet
  double elapsed_s = 0;       // of training, until it was told to end
  double cpu_share = 0;       // processor cores that all processes together took
};

/// Ctrl-C and SIGTERM end runs early, with an error, from now on.
void WatchForInterrupts();
bool IsInterrupted();

/// Hosts on this machine (hosts.sh), removed when it goes, and training runs on them.
class Cluster {
 public:
  struct Options {
    std::string hosts_script;  // path of hosts.sh
    std::string psctl;         // path of the program
    int servers = 1;
    int workers = 6;
  };

  /// Why hosts can't be built here; empty: they can.
  static std::string WhyNot(const std::string& hosts_script);

  static Result<std::unique_ptr<Cluster>> Make(const Options& options);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  ~Cluster();

  /// Errors: kUnavailable when the run fails or tells no speed of its fleet.
  Result<CellResult> Run(const Cell& cell);

  /// The job of a cell, as it runs on these hosts.
  proto::JobConfig JobOf(const Cell& cell) const;

  /// Such a job, perhaps with other workers, behind links of that rate.
  Result<CellResult> RunJob(proto::JobConfig job, double server_mbit_per_s);

 private:
  explicit Cluster(Options options);

  Status Hosts(const std::string& arguments) const;
  Status Train(const std::string& job_path, double seconds_max);

  const Options options_;
  const std::string prefix_;  // of the namespaces
  TemporaryFolder folder_;
};

}  // namespace ps::netns
