#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ps/proto/job_config.h"
#include "psctl/job_parts.h"

namespace ps::psctl {

/// What a job is, as names and values for RenderPairs.
std::vector<std::pair<std::string, std::string>> DescribeJob(
    const proto::JobConfig& config, const JobParts& parts);

/// What has to be started by hand, as lines with the commands; and why others can't be reached when
/// the run listens at an address of this machine alone. Empty when psctl starts all.
struct HandStart {
  std::string coordinator;  // "HOST:PORT" at which the run is reached
  std::string token_file;
  std::string own_address;  // one by which others may reach this machine; empty: it has none
};

std::string RenderHandStart(const proto::JobConfig& config, const HandStart& start);

}  // namespace ps::psctl
