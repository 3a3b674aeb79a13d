#pragma once

#include <string>

#include "psctl/cli/command.h"
#include "run/directory/run_directory.h"
#include "run/report/console.h"

namespace ps::psctl {

struct AttachCommand {
  std::string job;       // empty: the only running job
  bool is_json = false;  // the summary
};

extern const Command kAttach;

}  // namespace ps::psctl
