#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "ps/base/status.h"
#include "psctl/runs/checkpoint_command.h"
#include "psctl/view/checkpoint_view.h"
#include "run/report/console.h"

namespace ps::psctl {

/// Where checkpoints are looked at: a checkpoint path, or copies in an object store.
struct CheckpointSource {
  std::string name;
  std::vector<checkpoint::CheckpointId> ids;  // oldest first
  std::function<Result<checkpoint::Manifest>(checkpoint::CheckpointId)> read;
  std::function<std::vector<checkpoint::Damage>(checkpoint::CheckpointId)> verify;
  std::optional<BestCheckpoint> best = {};  // as its run has it; else the newest manifest says it
};

/// The best epoch's checkpoint as the job knew it then; nothing where it kept none.
std::optional<BestCheckpoint> BestSaidBy(const checkpoint::Manifest& manifest);

/// The manifest of checkpoint `chosen`; of the newest for 0. Errors: kNotFound with the numbers
/// that are there; those of `read`.
Result<checkpoint::Manifest> ReadChosen(
    const CheckpointSource& source, checkpoint::CheckpointId chosen);

/// "2, 3, 5", or "none".
std::string NumbersText(const std::vector<checkpoint::CheckpointId>& ids);

// `psctl checkpoint list | show | verify`. Each returns the exit code.
int ListCheckpoints(
    const CheckpointCommand& command, const CheckpointSource& source, const run::Console& console);
int ShowCheckpoint(
    const CheckpointCommand& command, const CheckpointSource& source, const run::Console& console);
int VerifyCheckpoints(
    const CheckpointCommand& command, const CheckpointSource& source, const run::Console& console);

}  // namespace ps::psctl
