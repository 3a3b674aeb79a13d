#pragma once

#include <string>
#include <vector>

#include "provisioner/unseen/device_figures.h"

namespace ps::provisioner {

/// Seconds of the same work of one job on a device.
struct DeviceTime {
  DeviceFigures device;
  double seconds = 0;
};

struct MeasuredJob {
  std::string model;  // jobs of one model, with several minibatches, tell little more than one
  int minibatch = 0;  // 0: not told
  std::vector<DeviceTime> times;
};

/// 47 jobs on two to four devices each: Gavel's and CM-DARE's measurements and spotDNN's profile.
const std::vector<MeasuredJob>& PublishedJobs();

}  // namespace ps::provisioner
