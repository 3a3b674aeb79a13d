#pragma once

#include <string>
#include <vector>

#include "ps/proto/job_config.h"
#include "run/report/console.h"

namespace ps::psctl {

struct CheckCommand {
  std::string job_path;
  std::vector<proto::ConfigOverride> overrides;
  std::string plan_path;  // empty: the job's own fleet
};

/// Looks for everything that would keep `psctl train` from running the job to its end, without
/// starting anything: the file and its rules, shapes, the whole dataset, programs, folder and
/// ports. Prints what the job is. Returns the exit code, which is that of train.
int RunCheck(const CheckCommand& command, const Console& console);

}  // namespace ps::psctl
