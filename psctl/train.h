#pragma once

#include <functional>
#include <optional>

#include "ps/coordinator/job_state.h"
#include "ps/proto/plan.h"
#include "psctl/run_checkpoints.h"
#include "psctl/run_directory.h"
#include "psctl/run_journal.h"
#include "psctl/supervisor.h"
#include "psctl/train_command.h"

namespace ps::psctl {

/// What a run begins from.
struct TrainStart {
  PreparedJob job;
  RunCheckpoints checkpoints;                     // of a resumed run
  std::optional<coordinator::ResumeFrom> resume;  // none: from the beginning
  bool is_probed = false;                         // as TrainCommand

  // Of a run that goes on after its coordinator was killed; others get their own.
  std::optional<RunDirectory> directory;
  RunJournal journal;
  std::optional<coordinator::RecoveredJob> recovered;
};

/// Coordinates a run to its end and leaves what it came to. Returns the exit code.
int Train(
    TrainStart start,
    const TrainCommand& command,
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
    const TrainCommand& command,
    const Console& console,
    const RunRegistry& registry);

}  // namespace ps::psctl
