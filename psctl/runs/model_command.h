#pragma once

#include <string>
#include <vector>

#include "ps/proto/job_config.h"
#include "run/report/console.h"

namespace ps::psctl {

struct ModelCommand {
  std::string job_path;
  std::vector<proto::ConfigOverride> overrides;
};

/// Prints the layers of a job's model with shapes, parameters and operations, and what a step costs
/// a worker. Reads of the dataset what it takes to know its shape. Returns the exit code.
int RunModel(const ModelCommand& command, const Console& console);

}  // namespace ps::psctl
