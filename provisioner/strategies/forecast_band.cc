#include "provisioner/strategies/forecast_band.h"

#include <algorithm>
#include <cmath>

#include "ps/base/check.h"

namespace ps::provisioner {
namespace {

// Chosen on 106 series of 30 recorded markets: twice as much makes bands wide after a few misses,
// half as much is too slow for a market that changes its ways (tests/bench/bench_forecast.cc).
constexpr double kStep = 0.04;
// Hits of a band that is a single count count no further than this. Without a limit a quiet week
// would excuse a day of misses.
constexpr double kLeftOutMax = 2;

}  // namespace

ForecastBand::ForecastBand(double share) : share_(share), left_out_(1 - share) {
  PS_CHECK(share > 0 && share < 1) << share;
}

void ForecastBand::Learn(uint64_t now) {
  while (!pending_.empty() && pending_.front().at <= now) {
    const Pending& seen = pending_.front();
    errors_.insert(std::ranges::upper_bound(errors_, seen.error), seen.error);
    if (seen.was_banded) {
      left_out_ += kStep * (seen.was_held ? 1 - share_ : -share_);
      // Misses always count: those of forecasts that were under way are made good, too.
      left_out_ = std::min(left_out_, kLeftOutMax);
    }
    pending_.pop_front();
  }
}

CountBand ForecastBand::At(double forecast, uint32_t most) const {
  PS_CHECK(IsReady());
  if (left_out_ <= 0) {
    return {0, most};
  }
  const double below = std::min(left_out_, 1.0) / 2;
  const auto at = [&](int64_t error) {
    return static_cast<uint32_t>(
        std::clamp<int64_t>(std::llround(forecast) + error, 0, static_cast<int64_t>(most)));
  };
  return {at(ErrorAt(below)), at(ErrorAt(1 - below))};
}

void ForecastBand::Expect(uint64_t at, double forecast, uint32_t actual, uint32_t most) {
  const bool is_banded = IsReady();
  pending_.push_back(
      {.at = at,
       .error = actual - std::llround(forecast),
       .was_banded = is_banded,
       .was_held = is_banded && At(forecast, most).Holds(actual)});
}

int64_t ForecastBand::ErrorAt(double place) const {
  const auto count = static_cast<double>(errors_.size());
  const double index =
      place < 0.5 ? std::floor(place * (count + 1)) - 1 : std::ceil(place * (count + 1)) - 1;
  return errors_[static_cast<size_t>(std::clamp(index, 0.0, count - 1))];
}

}  // namespace ps::provisioner
