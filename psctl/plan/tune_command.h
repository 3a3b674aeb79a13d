#pragma once

#include <string>
#include <vector>

#include "ps/proto/job_config.h"
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

/// Runs the job on this machine again and again, from beginning to end, to find the smallest share
/// of it that has to be trained in bsp (train.switch_at) for the accuracy of bsp alone. Says how
/// far it is on stderr, and prints each share with its accuracy and time. Returns the exit code.
int RunTune(const TuneCommand& command, const Console& console);

}  // namespace ps::psctl
