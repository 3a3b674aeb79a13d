#pragma once

#include <string>

#include "ps/proto/messages.h"
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

/// Shows a running job on the whole terminal until q, Ctrl-C or the run's end; where stdin or
/// stdout is no terminal, once. Waits for a coordinator that does not answer.
int RunTop(const TopCommand& command, const RunPaths& run, const Console& console);

/// Prints what happened in a run, ended ones too. `is_following`: until it ends, or Ctrl-C.
int RunEventList(const EventsCommand& command, const RunPaths& run, const Console& console);

/// The last events of the run, for its status. Without a log: none.
void AddLastEvents(const RunPaths& run, proto::JobStatus* status);

}  // namespace ps::psctl
