#pragma once

#include <map>
#include <string>
#include <vector>

#include "ps/base/status.h"

namespace ps::provisioner {

// How well contention models extrapolate published measurements: fitted to the fleets of at most 4
// workers of all series, they predict those of 5 to 8.

/// Steps per second of fleets of 1 or 2 to 8 equal workers.
struct ScalingSeries {
  std::string source;  // "CM-DARE", "transient"
  std::string device;  // "P100"
  int servers = 1;
  std::string model;
  double parameter_bytes = 0;
  double tensors = 0;
  std::map<int, double> steps_per_s;  // by workers; the median where there are several runs

  std::string Name() const;
};

/// The files of tests/data/ps_scaling. Errors: kNotFound, kInvalidArgument.
Result<std::vector<ScalingSeries>> LoadScalingSeries(const std::string& folder);

struct ContentionRow {
  std::string model;
  int coefficients = 0;  // that were fitted, over all series
  // Of |predicted / measured - 1| over every fleet of 5 to 8 workers.
  double mean = 0;
  double median = 0;
  double p90 = 0;
  double most = 0;
  std::vector<std::vector<double>> errors;  // predicted / measured - 1, by series, workers 5 to 8
};

/// One row for each model.
std::vector<ContentionRow> CheckContention(const std::vector<ScalingSeries>& series);

}  // namespace ps::provisioner
