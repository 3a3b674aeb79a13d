#include "ps/coordinator/state/fault_schedule.h"

#include <algorithm>

namespace ps::coordinator {

FaultSchedule::FaultSchedule(const std::vector<proto::FaultConfig>& faults, uint32_t* fired)
    : fired_(fired) {
  for (const proto::FaultConfig& fault : faults) {
    const auto after =
        std::upper_bound(faults_.begin(), faults_.end(), fault.at, [](float at, const auto& f) {
          return at < f.at;
        });
    faults_.insert(after, fault);
  }
}

std::vector<uint32_t> FaultSchedule::TakeDue(uint64_t samples_counted, uint64_t samples_total) {
  std::vector<uint32_t> due;
  // As a float, like `at`: a tenth of the samples is 0.1 then.
  const auto progress =
      static_cast<float>(static_cast<double>(samples_counted) / static_cast<double>(samples_total));
  while (*fired_ < faults_.size() && progress >= faults_[*fired_].at) {
    due.push_back((*fired_)++);
  }
  return due;
}

}  // namespace ps::coordinator
