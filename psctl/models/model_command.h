#pragma once

#include <string>
#include <vector>

#include "ps/proto/job/job_config.h"
#include "psctl/cli/command.h"
#include "run/report/console.h"

namespace ps::psctl {

struct ModelCommand {
  std::string job_path;
  std::vector<proto::ConfigOverride> overrides;
};

extern const Command kModel;

}  // namespace ps::psctl
