#include "provisioner/rental/price_history.h"

#include <algorithm>

namespace ps::provisioner {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kHourUs = 3600 * kSecondUs;
constexpr int64_t kLeastUs = 60 * kSecondUs;

}  // namespace

void PriceHistory::Add(const PoolPrice& price) {
  prices_[price.pool][price.since_us] = price.usd_per_hour;
}

std::optional<double> PriceHistory::At(const Pool& pool, int64_t us) const {
  const auto it = prices_.find(pool);
  if (it == prices_.end()) {
    return std::nullopt;
  }
  const auto next = it->second.upper_bound(us);
  return next == it->second.begin() ? next->second : std::prev(next)->second;
}

std::optional<double> PriceHistory::PaidAt(const Pool& pool, int64_t start_us, int64_t us) const {
  return At(pool, us - std::max<int64_t>(us - start_us, 0) % kHourUs);
}

double PriceHistory::Cost(const Pool& pool, int64_t start_us, int64_t end_us) const {
  const int64_t seconds = (std::max(end_us - start_us, kLeastUs) + kSecondUs - 1) / kSecondUs;
  const int64_t until_us = start_us + seconds * kSecondUs;
  double usd = 0;
  for (int64_t hour = start_us; hour < until_us; hour += kHourUs) {
    const double share = static_cast<double>(std::min(until_us - hour, kHourUs)) / kHourUs;
    usd += At(pool, hour).value_or(0) * share;
  }
  return usd;
}

}  // namespace ps::provisioner
