#pragma once

#include "psctl/cli/command.h"

namespace ps::psctl {

extern const Command kCloud;
extern const Command kCloudCheck;
extern const Command kCloudList;
extern const Command kCloudSweep;

}  // namespace ps::psctl
