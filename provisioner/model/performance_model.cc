#include "provisioner/model/performance_model.h"

#include <algorithm>
#include <cstddef>

#include "provisioner/model/step_time.h"
#include "ps/base/check.h"

namespace ps::provisioner {

std::string_view BottleneckName(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kCompute:
      return "compute";
    case Bottleneck::kPcie:
      return "pcie";
    case Bottleneck::kWorkerLink:
      return "worker network";
    case Bottleneck::kServerLink:
      return "server network";
  }
  return "";
}

FleetTraits TraitsOf(const SpeedPrediction& speed, int workers) {
  return {workers, speed.batch_mean, speed.heterogeneity, speed.late};
}

}  // namespace ps::provisioner
