#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ps/proto/metric.h"
#include "psctl/cli/command.h"
#include "run/directory/run_registry.h"
#include "run/report/console.h"

namespace ps::psctl {

struct RunsCommand {
  bool prunes = false;
  std::optional<double> older_than_s;  // prunes: what ended so long ago alone
  bool only_looks = false;             // prunes: says what would be removed
  bool removes_models = false;         // prunes
  bool is_confirmed = false;           // prunes: does not ask
  bool is_json = false;
  bool only_names = false;
};

/// A run as `psctl runs` shows it.
struct RunRow {
  std::string name;     // of its directory
  std::string state;    // of the job; "killed": it has ended and left no summary
  std::string started;  // "2026-01-31 12:00:00", UTC; empty: the directory's name does not say
  std::optional<uint64_t> samples_counted;
  std::optional<uint64_t> samples_total;
  std::optional<double> loss;
  std::optional<double> accuracy;  // on the test samples, at the newest evaluation; or the metric
  proto::Metric metric = proto::Metric::kAccuracy;
  std::optional<double> seconds;  // of training
  std::optional<double> usd;      // at the prices that the job names
  std::string model_problem;      // of an ended run, as in JobStatus
  bool is_running = false;
  run::RunPaths paths;
};

/// What the files of an ended run tell.
RunRow EndedRun(const run::RunPaths& run);

/// A run that goes on is asked, one that has ended read.
RunRow LookAtRun(const run::RunPaths& run);

std::string RenderRuns(const std::vector<RunRow>& rows, size_t width_max);
std::string RunsToJson(const std::vector<RunRow>& rows);

extern const Command kRuns;
extern const Command kCompare;  // compare_command.cc

}  // namespace ps::psctl
