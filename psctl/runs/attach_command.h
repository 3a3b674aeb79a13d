#pragma once

#include <string>

#include "psctl/cli/command.h"
#include "psctl/remote/remote_run.h"
#include "run/directory/run_directory.h"
#include "run/report/console.h"

namespace ps::psctl {

struct AttachCommand {
  std::string job;       // empty: the only running job
  bool is_json = false;  // the summary
  bool forgets = false;  // a head that its provider does not know any more
};

/// Shows how a run on its head goes until it ends, fetches what it left and gives the head back.
/// Returns its exit code; 0 when it goes on without this terminal.
int FollowRemote(RemoteRun* remote, bool is_json, const run::Console& console);

extern const Command kAttach;

}  // namespace ps::psctl
