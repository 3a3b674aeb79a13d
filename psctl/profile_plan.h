#pragma once

#include <string>
#include <vector>

#include "provisioner/profile_fit.h"
#include "ps/proto/job_config.h"
#include "ps/proto/profile.h"

namespace ps::psctl {

// What `psctl profile` runs, and what becomes of it. Pure.

/// One short run of the real job.
struct ProfileRun {
  std::string label;  // "2 workers"
  proto::JobConfig config;
  bool tells_bandwidth = false;  // a worker alone that waits for its bytes
  bool tells_fleet = false;      // its speed and loss curve are the job's
};

/// The runs for workers of `type`, `seconds` each: one worker that waits for its bytes, one and two
/// as the job is, two unequal ones, and one at each other minibatch, ascending: those of the job
/// and up to `minibatch_max` by powers of two. Directories are the caller's to set.
std::vector<ProfileRun> PlanProfileRuns(
    const proto::JobConfig& job, const std::string& type, double seconds, int minibatch_max);

/// Adds what a run of the plan told.
void AddProfileRun(
    const ProfileRun& run, const proto::JobProfile& told, proto::JobProfile* profile);

/// Fits all that there is enough for. What could not be fitted, a line each.
std::vector<std::string> FitProfile(proto::JobProfile* profile);

/// For people.
std::string RenderProfile(const proto::JobProfile& profile);

}  // namespace ps::psctl
