#pragma once

#include <string>

#include "psctl/cli/command.h"

namespace ps::psctl {

struct StopCommand {
  std::string job;  // empty: the only running job
  bool is_immediate = false;
};

extern const Command kStop;

}  // namespace ps::psctl
