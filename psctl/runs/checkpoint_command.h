#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "psctl/cli/command.h"
#include "psctl/view/checkpoint_view.h"
#include "run/directory/run_directory.h"
#include "run/report/console.h"

namespace ps::psctl {

/// `psctl checkpoint ACTION`.
struct CheckpointCommand {
  enum class Action : uint8_t { kList, kShow, kVerify, kDiff, kExport, kPrune, kCopy };

  Action action = Action::kList;
  std::string where;    // a run or a checkpoint path; empty: the only running job's
  uint64_t first = 0;   // number of a checkpoint; 0: the newest
  uint64_t second = 0;  // likewise
  std::string target;   // file of an export, path of a copy
  size_t keep = 0;
  bool is_forced = false;  // prune: also a place that a copier has not left
  bool is_all = false;
  bool is_half = false;
  bool is_json = false;
};

/// What models that are exported have from the run, besides its checkpoints.
struct ExportParts {
  std::string frozen_path = {};  // of tensors that nobody trains; empty: none
  std::string card_path = {};    // of what the model's file says of itself
};

/// On the checkpoints in `path`. `best`: as the run knows it. Returns the exit code.
int RunCheckpoint(
    const CheckpointCommand& command,
    const std::string& path,
    const ExportParts& parts,
    const std::optional<BestCheckpoint>& best,
    const run::Console& console);

extern const Command kCheckpoint;
extern const Command kCheckpointList;
extern const Command kCheckpointShow;
extern const Command kCheckpointVerify;
extern const Command kCheckpointDiff;
extern const Command kCheckpointExport;
extern const Command kCheckpointPrune;
extern const Command kCheckpointCopy;

}  // namespace ps::psctl
