#pragma once

#include <string>

#include "ps/proto/messages.h"
#include "psctl/cli/command.h"
#include "run/directory/run_directory.h"
#include "run/report/console.h"

namespace ps::psctl {

struct TopCommand {
  std::string job;  // empty: the only running job
};

struct EventsCommand {
  std::string job;  // empty: the only running job
  bool is_following = false;
  bool is_json = false;
};

/// The last events of the run, for its status. Without a log: none.
void AddLastEvents(const run::RunPaths& run, proto::JobStatus* status);

extern const Command kTop;
extern const Command kEvents;

}  // namespace ps::psctl
