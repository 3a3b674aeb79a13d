#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "checkpoint/manifest.h"
#include "ps/base/status.h"
#include "ps/store/object_store.h"
#include "run/report/console.h"

namespace ps::run {

// Copies of checkpoints in object stores, as a run uses them.

/// The place of copies. A command that is ended by a signal leaves what the next one goes on from.
/// Errors: those of checkpoint::OpenObjectStore.
Result<std::unique_ptr<store::ObjectStore>> OpenCopies(const std::string& place);

/// Shows "what 3 MiB of 9 MiB" as a line that is written anew; on a terminal only.
std::function<void(uint64_t done, uint64_t total)> BytesProgress(
    const Console& console, std::string what);

/// Fetches the newest copy in `place`, which `store` is, to a checkpoint path. Says what it does.
/// Errors: those of checkpoint::Download.
Status FetchNewest(
    store::ObjectStore& store,
    const std::string& place,
    const std::string& path,
    const Console& console);

/// The newest copy in the place whose index can be read. Errors: kNotFound; those of
/// checkpoint::OpenObjectStore and checkpoint::ReadCopiedManifest.
Result<checkpoint::Manifest> ReadNewestCopy(const std::string& place);

/// Fetches the newest copy that is whole to a checkpoint path of its own in `parent`, and says so.
/// Returns the path. Errors: those of checkpoint::OpenObjectStore and checkpoint::Download.
Result<std::string> FetchCheckpoint(
    const std::string& place, const std::string& parent, const Console& console);

/// For a run that begins: the place can be written to, and no other run's checkpoints are there.
/// Errors: kInvalidArgument, those of the object store; each says what to do.
Status CheckCopyTarget(const std::string& place);

}  // namespace ps::run
