#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps/coordinator/state/job_state.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/job/job_config.h"
#include "run/directory/coordinator_order.h"
#include "run/directory/run_checkpoints.h"
#include "run/directory/run_directory.h"
#include "run/directory/run_registry.h"
#include "run/planning/prepared_job.h"
#include "run/report/console.h"
#include "run/run_journal.h"
#include "run/supervisor.h"

namespace ps::run {

class TrainRun;

/// What a run begins from.
struct TrainStart {
  PreparedJob job;
  RunCheckpoints checkpoints;                     // of a resumed run
  std::optional<coordinator::ResumeFrom> resume;  // none: from the beginning

  // For a run that goes on after its coordinator was killed; others get their own.
  std::optional<RunDirectory> directory;
  RunJournal journal;
  std::optional<coordinator::RecoveredJob> recovered;
};

/// A run that can begin. It refers to the start.
struct ReadyRun {
  std::unique_ptr<TrainStart> start;
  std::unique_ptr<TrainRun> run;
};

/// Makes ready what `start` says: the run's directory with all that is in it, its port. Errors:
/// what can't be made or read; what was made of a run that had not begun is gone then.
Result<ReadyRun> MakeReady(TrainStart start, const Console& console);

/// Coordinates a run to its end and leaves what it came to. Returns the exit code.
int Conduct(
    ReadyRun ready,
    const TrainOrder& order,
    const Console& console,
    const RunRegistry& registry,
    SupervisorLink* link);

/// Both.
int Train(
    TrainStart start,
    const TrainOrder& order,
    const Console& console,
    const RunRegistry& registry,
    SupervisorLink* link);

/// What the run of a coordinator that was killed goes on from. Errors: kNotFound (it had not
/// begun), those of JobJournal::Open and LoadParts. `is_final`, unless null: whether another
/// attempt would find the same.
Result<TrainStart> TakeUp(SupervisedRun run, bool* is_final = nullptr);

/// What the first coordinator of a run does; returns the exit code.
using BeginRun = std::function<int(const Console& console, SupervisorLink* link)>;

/// Supervise, for a run that Train coordinates: others go on with it.
int Coordinate(
    const BeginRun& begin,
    const std::optional<proto::Plan>& plan,
    const TrainOrder& order,
    const Console& console,
    const RunRegistry& registry);

/// Runs a job to its end: makes the run directory, holds the coordinator, starts servers and
/// workers, shows progress, and leaves profile and summary; with a plan, runs the plan's fleet
/// instead of the job's and says how it went against the plan. Returns the exit code.
int RunTrain(const TrainOrder& order, const Console& console, const RunRegistry& registry);

}  // namespace ps::run
