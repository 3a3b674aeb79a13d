#pragma once

#include <string>
#include <vector>

#include "ps/proto/job/job_config.h"
#include "psctl/cli/command.h"
#include "run/report/console.h"

namespace ps::psctl {

struct CheckCommand {
  std::string job_path;
  std::vector<proto::ConfigOverride> overrides;
  std::string plan_path;  // empty: the job's own fleet
};

extern const Command kCheck;

}  // namespace ps::psctl
