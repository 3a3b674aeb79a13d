#pragma once

#include <string>
#include <vector>

#include "tests/provisioner/model/scaling_series.h"

namespace ps::provisioner {

// How well contention models extrapolate published measurements: fitted to the fleets of at most 4
// workers of all series, they predict those of 5 to 8.

struct ContentionRow {
  std::string model;
  int coefficients = 0;  // that were fitted, over all series
  // |predicted / measured - 1| over every fleet of 5 to 8 workers.
  double mean = 0;
  double median = 0;
  double p90 = 0;
  double most = 0;
  std::vector<std::vector<double>> errors;  // predicted / measured - 1, by series, workers 5 to 8
};

/// One row for each model.
std::vector<ContentionRow> CheckContention(const std::vector<ScalingSeries>& series);

}  // namespace ps::provisioner
