#pragma once

#include <vector>

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "run/directory/run_directory.h"

namespace ps::run {

/// Asks the coordinator of a running job at its control socket, which only its user can. Errors:
/// kUnavailable (it does not listen yet, or not any more, or on another machine),
/// kDeadlineExceeded, and what the coordinator refuses with.
Result<proto::JobStatus> FetchStatus(const RunPaths& run);

/// Tells the run to end; returns when it has taken note. Errors: as FetchStatus.
Status AskToStop(const RunPaths& run, bool is_immediate);

/// Tells a worker, or a server of that number, that its machine is taken back in `grace`. Returns
/// what is left of the shortest notice that it has. Errors: as FetchStatus; kNotFound (there is no
/// such one).
Result<Duration> GiveNotice(const RunPaths& run, WorkerId worker, bool is_server, Duration grace);

/// The worker leaves for good: its group is to be smaller by one. Otherwise as GiveNotice.
Result<Duration> ReleaseWorker(const RunPaths& run, WorkerId worker, Duration grace);

/// Train leases are granted no more, or again. Errors: as FetchStatus; kInvalidArgument (the run
/// is ending).
Status AskToPause(const RunPaths& run, bool is_paused);

/// The job goes on in this mode. Errors: as FetchStatus; kInvalidArgument (as ModeRequest).
Result<proto::ModeReply> AskForMode(const RunPaths& run, const proto::ModeChoice& wanted);
/// What the steps of the job have from now on. Errors: as FetchStatus; kInvalidArgument (as
/// SetRequest).
Result<proto::SetReply> AskToSet(
    const RunPaths& run, const std::vector<proto::ConfigOverride>& changes);

/// Changes how many workers or servers are wanted; returns what is wanted now, and who is there.
/// The coordinator's log and psctl events name the asker.
/// Errors: as FetchStatus; kNotFound, kInvalidArgument (as ScaleRequest).
Result<proto::ScaleReply> AskToScale(
    const RunPaths& run, const std::vector<proto::ScaleChange>& changes, proto::Asker asker);

}  // namespace ps::run
