#pragma once

#include <string>
#include <vector>

#include "ps/proto/job_config.h"
#include "psctl/console.h"
#include "psctl/run_registry.h"

namespace ps::psctl {

struct ResumeCommand {
  std::string from;  // a run, its directory, a checkpoint path, or a place of copies
  std::vector<proto::ConfigOverride> overrides;
  bool is_json = false;
  bool is_detached = false;
  bool is_trusted = false;  // a job in another place may start what it names
};

/// Goes on with a run that was killed: from its journal while its servers live, else from its
/// newest checkpoint that is whole, as a run of its own. Returns the exit code.
int RunResume(const ResumeCommand& command, const Console& console, const RunRegistry& registry);

}  // namespace ps::psctl
