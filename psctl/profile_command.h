#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job_config.h"
#include "ps/proto/profile.h"
#include "psctl/console.h"

namespace ps::psctl {

/// psctl profile JOB.json
struct ProfileCommand {
  std::string job_path;
  std::vector<proto::ConfigOverride> overrides;
  std::string output = "profile.json";
  std::string type = "local";  // what profiles and catalogs call this machine
  double seconds = 10;         // of a run that measures speed; there are some six
  // Of one worker's loss curve; 0: no curves. Not said: 3 times `seconds`.
  std::optional<double> curve_seconds = {};
};

/// Runs the job briefly on this machine with different fleets and minibatches, says how far it is
/// on stderr, and writes what they told into `output`: into what is there already when that is a
/// profile of the same model. Returns the exit code.
int RunProfile(const ProfileCommand& command, const Console& console);

/// Merges a profile into the one at `path`, if there is one, fits it anew and writes it. Returns
/// what could not be fitted. Errors: kInvalidArgument when `path` holds a profile of another model,
/// or none; kIo.
Result<std::vector<std::string>> RefineProfileFile(
    const std::string& path, const proto::JobProfile& newer, proto::JobProfile* merged);

}  // namespace ps::psctl
