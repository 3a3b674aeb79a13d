#pragma once

#include <string>

#include "run/directory/run_directory.h"
#include "run/report/console.h"

namespace ps::psctl {

struct AttachCommand {
  std::string job;       // empty: the only running job
  bool is_json = false;  // the summary
};

/// Shows how a run goes until it has ended, and then its summary. Ctrl-C leaves the run alone.
/// Returns the exit code of the run; 0 when it still goes on.
int RunAttach(const AttachCommand& command, const RunPaths& run, const Console& console);

}  // namespace ps::psctl
