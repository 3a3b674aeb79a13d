#pragma once

#include <string>

#include "checkpoint/manifest.h"
#include "ps/base/status.h"
#include "psctl/runs/checkpoint_command.h"
#include "run/report/console.h"

namespace ps::psctl {

/// `psctl checkpoint copy s3://BUCKET/PREFIX`: the checkpoints of a path to an object store.
/// Returns the exit code.
int CopyToObjects(const std::string& path, const std::string& place, const run::Console& console);

/// `psctl checkpoint ACTION ... s3://BUCKET/PREFIX`: list, show, verify and prune look at the
/// copies there, copy fetches the newest that is whole. Returns the exit code.
int RunOnObjects(const CheckpointCommand& command, const run::Console& console);

}  // namespace ps::psctl
