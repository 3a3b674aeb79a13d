#pragma once

#include <string>

#include "psctl/cli/command.h"
#include "psctl/models/chosen_model.h"

namespace ps::psctl {

struct ExportCommand {
  ModelChoice choice;
  std::string target;  // a .py file, or a folder
};

extern const Command kModelExport;

}  // namespace ps::psctl
