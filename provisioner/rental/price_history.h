#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "provisioner/provider/provider.h"

namespace ps::provisioner {

/// What pools cost, and when. Pure. Times are microseconds since 1970.
class PriceHistory {
 public:
  /// In any order; one that is there already changes nothing.
  void Add(const PoolPrice& price);
  /// In force at that time; before the first one that is known, the first.
  std::optional<double> At(const Pool& pool, int64_t us) const;
  /// What a machine since `start_us` pays at `us`, by the rule of Cost: the price in force when its
  /// hour under way began.
  std::optional<double> PaidAt(const Pool& pool, int64_t start_us, int64_t us) const;
  /// US dollars of a machine from `start_us` to `end_us`, by the rule of EC2's spot machines, which
  /// for prices that do not change is everybody's: by the second, a minute at least, and a price
  /// counts from the beginning of the next of the machine's hours. 0 where no price is known.
  double Cost(const Pool& pool, int64_t start_us, int64_t end_us) const;

 private:
  std::map<Pool, std::map<int64_t, double>> prices_;  // from when, dollars an hour
};

}  // namespace ps::provisioner
