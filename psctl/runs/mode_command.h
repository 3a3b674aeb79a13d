#pragma once

#include <string>

#include "ps/base/status.h"
#include "ps/proto/messages.h"
#include "run/directory/run_directory.h"
#include "run/report/console.h"

namespace ps::psctl {

/// `psctl mode`: how a running job trains from now on.
struct ModeCommand {
  std::string word;  // "async", "ssp:3", ...; checked when the command line is read
  proto::ModeChoice wanted;
  bool is_waiting = false;
  std::string job;  // empty: the only running job
};

/// "async", "bsp", "ssp" (the bound that job files have by default) or "ssp:5". Errors:
/// kInvalidArgument saying what is allowed.
Result<proto::ModeChoice> ParseMode(const std::string& word);

int RunMode(const ModeCommand& command, const RunPaths& run, const Console& console);

}  // namespace ps::psctl
