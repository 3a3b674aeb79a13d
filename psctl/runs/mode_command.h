#pragma once

#include <string>

#include "ps/base/status.h"
#include "ps/proto/messages.h"
#include "psctl/cli/command.h"
#include "run/directory/run_directory.h"
#include "run/report/console.h"

namespace ps::psctl {

/// `psctl mode`: how a running job trains from now on.
struct ModeCommand {
  proto::ModeChoice wanted;
  bool is_waiting = false;
  std::string job;  // empty: the only running job
};

/// "async", "bsp", "ssp" (the bound that job files have by default) or "ssp:5". Errors:
/// kInvalidArgument saying what is allowed.
Result<proto::ModeChoice> ParseMode(const std::string& word);

extern const Command kMode;

}  // namespace ps::psctl
