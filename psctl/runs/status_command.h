#pragma once

#include <string>

#include "psctl/cli/command.h"

namespace ps::psctl {

struct StatusCommand {
  std::string job;  // empty: every running job
  bool is_json = false;
};

struct WhyCommand {
  std::string job;  // empty: the only running job
  int worker = -1;  // none: all of them
};

extern const Command kStatus;
extern const Command kWhy;

}  // namespace ps::psctl
