#pragma once

#include <string>

#include "ps/base/status.h"
#include "ps/json/json_value.h"
#include "ps/proto/job/job_config.h"

// What a job file has besides the check against its schema. Each returns the first fault it finds,
// in the form of ErrorAt. Private to the job config.

namespace ps::proto {

/// Puts the value of the `number`-th --set (from 1) into the tree.
Status ApplyOverride(JsonValue& root, const ConfigOverride& override, int number);

/// What fields say together. `root` is where `config` was read from.
Status CheckRules(const JobConfig& config, const JsonValue& root, const std::string& file);
/// Whether the dataset's directory is on this machine's disk.
Status CheckDataset(const JobConfig& config, const JsonValue& root, const std::string& file);

}  // namespace ps::proto
