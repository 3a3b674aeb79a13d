#pragma once

#include <optional>
#include <string>
#include <vector>

#include "provisioner/profile/profile_runs.h"
#include "ps/proto/job/job_config.h"
#include "psctl/cli/command.h"
#include "run/planning/planning_files.h"
#include "run/report/console.h"

namespace ps::psctl {

/// psctl profile JOB.json
struct ProfileCommand {
  std::string job_path;
  std::vector<proto::ConfigOverride> overrides;
  std::string output = run::kDefaultProfile;
  std::string type = "local";  // what profiles and catalogs call this machine
  double seconds = 10;         // of a run that measures speed; there are some six
  // The length of one worker's loss curve; 0: no curves. Not said: twice `seconds`.
  std::optional<double> curve_seconds = {};
  // Exchanges whose cost in samples to a loss is measured, each with each: numbers of local steps,
  // encodings of pushes and of pulls. Empty: the job's own.
  std::vector<std::string> local_steps;
  std::vector<std::string> push;
  std::vector<std::string> pull;
  int curve_repeats = provisioner::CurveSettings{}.repeats;  // 1 to kCurvesPerFleet
};

extern const Command kProfile;

}  // namespace ps::psctl
