#pragma once

#include <cstdint>
#include <vector>

#include "ps/proto/job/job_config.h"

namespace ps::coordinator {

/// The planned disturbances of the config, each due once, when its part of the job is counted.
class FaultSchedule {
 public:
  /// `fired` of them, which outlives the schedule, were due before.
  FaultSchedule(const std::vector<proto::FaultConfig>& faults, uint32_t* fired);

  /// Places in faults() of those that are due now and were not before, in their order.
  std::vector<uint32_t> TakeDue(uint64_t samples_counted, uint64_t samples_total);

  /// Ordered by `at`.
  const std::vector<proto::FaultConfig>& faults() const { return faults_; }

 private:
  std::vector<proto::FaultConfig> faults_;
  uint32_t* const fired_;
};

}  // namespace ps::coordinator
