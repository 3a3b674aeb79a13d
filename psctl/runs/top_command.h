#pragma once

#include <string>

#include "psctl/cli/command.h"

namespace ps::psctl {

struct TopCommand {
  std::string job;  // empty: the only running job
};

struct EventsCommand {
  std::string job;  // empty: the only running job
  bool is_following = false;
  bool is_json = false;
};

extern const Command kTop;
extern const Command kEvents;

}  // namespace ps::psctl
