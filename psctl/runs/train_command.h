#pragma once

#include "psctl/cli/command.h"
#include "run/directory/coordinator_order.h"

namespace ps::psctl {

struct TrainCommand : run::TrainOrder {
  bool only_prints_config = false;
  bool is_remote = false;  // coordinator and servers on a machine that is rented for them
};

// psctl becomes ps_coordinator for both.
extern const Command kTrain;
extern const Command kResume;

}  // namespace ps::psctl
