#pragma once

#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/request_thread.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"
#include "run/directory/run_directory.h"
#include "run/planning/live_policy.h"
#include "run/planning/said_lines.h"

namespace ps::run {

/// Lets the job's policy decide while the run goes on: looks at it and changes its fleet as any
/// psctl does, over the control socket, on a thread of its own. So the coordinator's loop waits for
/// nothing here. Each decision is in the log, with its reason; of an earlier coordinator's, too, so
/// that the policy goes on from what was known.
class PolicyRunner {
 public:
  /// `log` outlives it.
  PolicyRunner(RunPaths run, const proto::JobConfig& config, const Logger* log);

  /// Lines for people since the last call. Thread: any.
  std::vector<std::string> TakeLines() { return lines_.Take(); }

 private:
  void Run();
  bool Do(const PolicyDecision& decision);

  const RunPaths run_;
  const proto::JobConfig config_;
  const PolicyTypes types_;
  const Logger* const log_;
  SaidLines lines_;
  RequestThread<int> thread_;  // the last: it uses the others
};

/// The changes that ask for such a fleet.
std::vector<proto::ScaleChange> ChangesFor(
    const provisioner::FleetWish& fleet, const PolicyTypes& types);

}  // namespace ps::run
