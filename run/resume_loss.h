#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/manifest.h"
#include "ps/proto/state/job_state.h"
#include "run/directory/run_registry.h"

namespace ps::run {

// What a run that is resumed lost: what was counted after its newest checkpoint, which is trained
// again. The checkpoint can't say that. The journal of the run's coordinator can, or else the last
// line of its metrics.

/// What a run had counted when it was last heard of.
struct CountedWork {
  uint64_t steps = 0;
  uint64_t samples = 0;
  bool is_all = false;  // nothing was counted after it
  double unix_s = 0;    // when it was written; 0: not known
};

/// By the state in the journal of the run's coordinator; nothing when the run does not know of this
/// checkpoint, so that another one was the last to train.
std::optional<CountedWork> CountedByJournal(const proto::JobState& state, uint64_t checkpoint);

/// By the last whole line of a metrics.jsonl, of which `tail` is the end. Nothing: there is none.
std::optional<CountedWork> CountedByMetrics(std::string_view tail);

/// By the metrics of the run that wrote last to this checkpoint path: `run`, or another one that is
/// found. Nothing when none is as new as the checkpoint.
std::optional<CountedWork> FindCounted(
    const std::string& path,
    const std::optional<RunPaths>& run,
    const RunRegistry& registry,
    const checkpoint::Manifest& manifest);

/// A line: how many steps and samples are trained again; what is not known is said.
std::string LossText(
    const checkpoint::Progress& progress,
    const std::optional<CountedWork>& counted,
    double checkpoint_every_s);

}  // namespace ps::run
