#pragma once

#include <map>
#include <string>
#include <vector>

#include "ps/base/status.h"

namespace ps::provisioner {

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

}  // namespace ps::provisioner
