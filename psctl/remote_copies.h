#pragma once

#include <string>

#include "checkpoint/manifest.h"
#include "ps/base/status.h"
#include "psctl/checkpoint_command.h"
#include "psctl/console.h"

namespace ps::psctl {

/// `psctl checkpoint copy s3://BUCKET/PREFIX`: the checkpoints of a path to an object store.
/// Returns the exit code.
int CopyToObjects(const std::string& path, const std::string& place, const Console& console);

/// `psctl checkpoint ACTION ... s3://BUCKET/PREFIX`: list, show, verify and prune look at the
/// copies there, copy fetches the newest that is whole. Returns the exit code.
int RunOnObjects(const CheckpointCommand& command, const Console& console);

/// Of the newest copy in the place whose index can be read. Errors: kNotFound; those of
/// checkpoint::OpenObjectStore and checkpoint::ReadCopiedManifest.
Result<checkpoint::Manifest> ReadNewestCopy(const std::string& place);

/// Fetches the newest copy that is whole to a checkpoint path of its own in `parent`, and says so.
/// Returns the path. Errors: those of checkpoint::OpenObjectStore and checkpoint::Download.
Result<std::string> FetchCheckpoint(
    const std::string& place, const std::string& parent, const Console& console);

/// For a run that begins: the place can be written to, and no other run's checkpoints are there.
/// Errors: kInvalidArgument, those of the object store; each says what to do.
Status CheckCopyTarget(const std::string& place);

}  // namespace ps::psctl
