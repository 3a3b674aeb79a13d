#pragma once

#include <string>

#include "ps/base/status.h"
#include "ps/proto/job_config.h"
#include "ps/proto/json_dom.h"

// The three checks of a job file, in the order they run. Each returns the first fault it finds, in
// the form of ErrorAt. Private to the job config.

namespace ps::proto {

/// Puts the value of the `number`-th --set (from 1) into the tree.
Status ApplyOverride(JsonValue& root, const ConfigOverride& override, int number);

/// Names, types, ranges, required fields: what job.fbs says of each field by itself. Numbers and
/// words that --set gave to a text field become texts.
Status CheckSchema(JsonValue& root, const std::string& file);

/// What fields say together, and what is on the disk. `root` is where `config` was read from.
Status CheckRules(const JobConfig& config, const JsonValue& root, const std::string& file);

}  // namespace ps::proto
