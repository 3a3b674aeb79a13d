#pragma once

#include <string>
#include <vector>

#include "provisioner/profile/exchange_penalty.h"
#include "ps/base/status.h"
#include "ps/proto/files/profile.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

// What `psctl profile` runs, and what becomes of it. Pure.

/// One short run of the real job.
struct ProfileRun {
  std::string label;  // "2 workers"
  proto::JobConfig config;
  bool tells_bandwidth = false;  // a worker alone that waits for its bytes
  bool tells_fleet = false;      // its speed is the job's
  bool tells_losses = false;     // so is its loss curve
  bool tells_memory = false;     // a worker alone on the CPU: its process holds all that it takes
  bool may_fail = false;         // a larger minibatch than the job's: it may not fit
};

/// The runs for workers of `type`, `seconds` each: one worker that waits for its bytes, one and two
/// as the job is, two unequal ones, and one at each other minibatch, ascending: those of the job
/// and up to `minibatch_max` by powers of two. Directories are the caller's to set.
std::vector<ProfileRun> PlanProfileRuns(
    const proto::JobConfig& job, const std::string& type, double seconds, int minibatch_max);

/// What runs for loss curves need to know.
struct CurveSettings {
  double compute_s = 0;   // a step's of one worker
  double push_bytes = 0;  // of a step
  int processors = 1;     // of this machine
  double seconds = 30;    // of one worker's curve
  int repeats = 2;        // of each fleet of 2 to 6 workers
};

/// Runs of 1 to 8 unequal workers that tell how many steps fleets need to a loss, each for about
/// root n times the steps of one worker alone. Steps depend on how stale parameters grow, not on
/// how fast the machine is: computation is stretched until this machine holds all workers at once,
/// and with overlap exchanges are as slow as computation hides in some, without limit in others.
/// All fleets come once before any comes again. Repeats keep the job's seed, which the run that is
/// planned will have too. How long runs take depends on neither `compute_s` nor `push_bytes`.
std::vector<ProfileRun> PlanCurveRuns(
    const proto::JobConfig& job, const std::string& type, const CurveSettings& settings);

/// Runs of one fleet of 2 workers, the same but for their exchange: what it costs in samples to a
/// loss. Errors: kInvalidArgument (a step would have too many samples). Requires: local steps from
/// 1 up.
Result<std::vector<ProfileRun>> PlanPenaltyRuns(
    const proto::JobConfig& job,
    const std::string& type,
    const CurveSettings& settings,
    const std::vector<proto::ExchangeScheme>& schemes);

/// The loss curve that a run told.
std::vector<LossAt> LossesBySamples(const proto::JobProfile& told);

/// Adds what a run of the plan told.
void AddProfileRun(
    const ProfileRun& run, const proto::JobProfile& told, proto::JobProfile* profile);

}  // namespace ps::provisioner
