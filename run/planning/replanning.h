#pragma once

#include <string>
#include <vector>

#include "provisioner/planner/replan.h"
#include "ps/base/logger.h"
#include "ps/base/request_thread.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"
#include "run/directory/run_directory.h"
#include "run/planning/said_lines.h"

namespace ps::run {

provisioner::ReplanSettings SettingsOf(const proto::GoalConfig& goal);

/// All but the catalog's mark. Requires: the job has a goal.
provisioner::ReplanFacts ReplanFactsOf(
    const proto::JobStatus& status, const proto::JobConfig& config);

/// What the planner says of what is left of such a run, to go on with the fleet that is wanted or
/// with another one of the job's types. `servers`: "TYPE=N", where somebody knows. `watch` may end
/// it early; null: nobody does. Errors: of the profile or the catalog, or there is nothing left to
/// plan.
Result<provisioner::ReplanAnswer> AskPlanner(
    const proto::JobStatus& status,
    const proto::JobConfig& config,
    const std::vector<std::string>& servers,
    const std::string& today,
    provisioner::SearchWatch* watch);

/// Plans a run with a goal anew while it goes on: looks at it and changes its fleet as any psctl
/// does, over the control socket, on a thread of its own. So the coordinator's loop waits for
/// nothing here. Each decision is in the log, with its reason.
class Replanning {
 public:
  /// `log` outlives it. `today` as "2026-07-20".
  Replanning(RunPaths run, proto::JobConfig config, std::string today, const Logger* log);

  /// Lines for people since the last call. Thread: any.
  std::vector<std::string> TakeLines() { return lines_.Take(); }

 private:
  void Look();
  provisioner::ReplanFacts FactsFor(const proto::JobStatus& status) const;
  void Plan(const proto::JobStatus& status);

  const RunPaths run_;
  const proto::JobConfig config_;
  const std::string today_;
  const Logger* const log_;
  provisioner::Replanner replanner_;  // of the thread, as is last_trouble_
  std::string last_trouble_;
  SaidLines lines_;
  RequestThread<int> thread_;  // the last: it uses the others
};

}  // namespace ps::run
