#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ps/proto/job/job_config.h"
#include "run/report/job_parts.h"

namespace ps::run {

/// What a job is, as names and values for RenderPairs.
std::vector<std::pair<std::string, std::string>> DescribeJob(
    const proto::JobConfig& config, const JobParts& parts);

/// Why a run may come to find the disk of `path` full, whose free bytes are given: at the most it
/// has there the kept checkpoints, one that is being written, and the model. Empty: it is enough.
std::string RenderDiskWarning(
    const proto::JobConfig& config,
    const JobParts& parts,
    const std::string& path,
    uint64_t free_bytes);

/// What has to be started by hand, as lines with the commands; and why others can't be reached when
/// the run listens at an address of this machine alone. Empty when psctl starts all.
struct HandStart {
  std::string coordinator;  // "HOST:PORT" at which the run is reached
  std::string token_file;
  std::string own_address;  // one by which others may reach this machine; empty: it has none
};

std::string RenderHandStart(const proto::JobConfig& config, const HandStart& start);

}  // namespace ps::run
