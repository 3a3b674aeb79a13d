#pragma once

#include <string>
#include <vector>

#include "ps/proto/job/job_config.h"
#include "psctl/cli/command.h"
#include "run/report/console.h"

namespace ps::psctl {

/// psctl tune JOB.json
struct TuneCommand {
  std::string job_path;
  std::vector<proto::ConfigOverride> overrides;
  double tolerance_points = 0.5;  // of accuracy, in percent; 0 to 100
  int tries = 4;                  // shares, after the run in bsp alone; 1 to kTuneTriesMax
  int repeats = 1;                // runs of each share, whose accuracies are averaged
  std::string output;             // file for the job with the share that was found; empty: none
};

inline constexpr int kTuneTriesMax = 10;
inline constexpr int kTuneRepeatsMax = 20;

extern const Command kTune;

}  // namespace ps::psctl
