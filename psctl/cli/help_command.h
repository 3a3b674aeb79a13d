#pragma once

#include "psctl/cli/command.h"

namespace ps::psctl {

extern const Command kHelp;
extern const Command kCompletion;

}  // namespace ps::psctl
