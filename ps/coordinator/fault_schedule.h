#pragma once

#include <cstdint>
#include <vector>

#include "ps/proto/job_config.h"

namespace ps::coordinator {

/// The planned disturbances of the config, each due once, when its part of the job is counted.
class FaultSchedule {
 public:
  explicit FaultSchedule(const std::vector<proto::FaultConfig>& faults);

  /// Faults that are due now and were not before, in the order of their `at`.
  std::vector<proto::FaultConfig> TakeDue(uint64_t samples_counted, uint64_t samples_total);

 private:
  std::vector<proto::FaultConfig> faults_;  // ordered by `at`
  size_t next_ = 0;
};

}  // namespace ps::coordinator
