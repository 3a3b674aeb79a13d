#pragma once

#include "psctl/cli/command.h"
#include "run/resume.h"
#include "run/train.h"

namespace ps::psctl {

extern const Command kTrain;
extern const Command kResume;

}  // namespace ps::psctl
