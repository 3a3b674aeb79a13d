#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/proto/job/job_config.h"

namespace ps::run {

/// What the servers make of the job's learning rate and momentum, and which of these are none for
/// workers that do not wait for each other; a line each.
std::vector<std::string> RateNotes(const proto::JobConfig& config);

/// What becomes of the learning rate when `workers` take part, more than the job lists, and train
/// in `mode`; a line, or empty.
std::string RateNote(const proto::JobConfig& config, proto::Mode mode, uint32_t workers);

}  // namespace ps::run
