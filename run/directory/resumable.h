#pragma once

#include <string>

#include "ps/base/status.h"
#include "run/directory/run_registry.h"

namespace ps::run {

/// Whether a run has left something to go on from: checkpoints that can be found, a journal, or a
/// head machine whose copies or checkpoints may be.
bool IsResumable(const RunPaths& run);

/// The run that `name` means to who wants to go on with one: as RunRegistry::Resolve, and of ended
/// runs also the newest of a job that is resumable. Errors: those of Resolve; kNotFound names the
/// newest resumable runs.
Result<RunPaths> ResolveToResume(const std::string& name, const RunRegistry& registry);

}  // namespace ps::run
