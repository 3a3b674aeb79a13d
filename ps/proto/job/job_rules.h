#pragma once

#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "ps/json/json_value.h"
#include "ps/proto/job/job_config.h"

// Rules that span fields of a job, by theme. Each looks at values, so that a printed config passes
// again; only that of train.overlap asks whether it was written, since its default depends on the
// mode. Private to the job config.

namespace ps::proto {

/// A job and the tree that it was read from.
struct JobInFile {
  const JobConfig& config;
  const JsonValue& root;
  const std::string& file;

  /// What ErrorAtPath makes of it.
  Status Error(std::string_view path, const std::string& what) const;
};

/// Model, optimizer, mode.
Status CheckTraining(const JobInFile& job);
/// What belongs to the data alone, where our own workers train.
Status CheckData(const JobInFile& job);
/// What is rented, and for how much.
Status CheckRent(const JobInFile& job);
/// Groups of workers, their devices, hosts and zones, and who decides about them.
Status CheckFleet(const JobInFile& job);

}  // namespace ps::proto
