#pragma once

#include <cstdint>
#include <string>

#include "psctl/cli/command.h"
#include "psctl/models/chosen_model.h"

namespace ps::psctl {

struct ApplyCommand {
  ModelChoice choice;
  std::string data;
  std::string output;  // a file, or "-" for stdout
  uint32_t top = 0;    // 0: all
};

extern const Command kApply;

}  // namespace ps::psctl
