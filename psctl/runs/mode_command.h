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

extern const Command kMode;

}  // namespace ps::psctl
