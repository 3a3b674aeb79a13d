#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ps/proto/job/job_config.h"

namespace ps::proto {

/// A field of a job and its value.
struct JobSetting {
  std::string path;  // launch.hosts[0].host
  std::string value;

  friend bool operator==(const JobSetting&, const JobSetting&) = default;
};

/// The fields by which a job decides what is started, where, and with which files and keys of this
/// machine, or where it writes, as far as they differ from a job that says nothing of them. Whoever
/// runs a job that others could have written (a copy in a bucket) has to be asked about these.
///
/// Every text of a job is one of them unless job_trust.cc lists it as harmless: a new field of
/// job.fbs that does no such thing is added there.
std::vector<JobSetting> SettingsToTrust(const JobConfig& config);

/// Whether one of the overrides sets the field, or a list or table that it is in.
bool IsOverridden(std::string_view path, const std::vector<ConfigOverride>& overrides);

}  // namespace ps::proto
