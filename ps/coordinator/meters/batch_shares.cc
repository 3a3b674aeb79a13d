#include "ps/coordinator/meters/batch_shares.h"

#include <algorithm>
#include <cmath>

namespace ps::coordinator {
namespace {

constexpr double kSpeedUnit = 1e-6;
constexpr double kSpeedMax = 1e9;  // samples/s; sums stay exact
constexpr double kNewest = 0.3;    // weight of the newest heartbeat
constexpr double kDeadBand = 0.05;

}  // namespace

void BatchShares::Note(
    Incarnation incarnation,
    uint32_t base,
    const proto::WorkerStats& before,
    const proto::WorkerStats& now) {
  const double seconds = now.compute_s - before.compute_s;
  if (now.samples <= before.samples || !(seconds > 0)) {
    return;  // a report that was overtaken, or no step since
  }
  const double speed =
      std::min(static_cast<double>(now.samples - before.samples) / seconds, kSpeedMax) / kSpeedUnit;
  Share& share = shares_[incarnation];
  const int64_t old = share.speed;
  const double smooth =
      old == 0 ? speed : (1 - kNewest) * static_cast<double>(old) + kNewest * speed;
  share.speed = std::max<int64_t>(std::llround(smooth), 1);
  speed_sum_ += share.speed - old;
  Replace(old, share.speed);
  base_sum_ += int64_t{base} - int64_t{share.base};
  share.base = base;
}

void BatchShares::Remove(Incarnation incarnation) {
  const auto it = shares_.find(incarnation);
  if (it == shares_.end()) {
    return;
  }
  speed_sum_ -= it->second.speed;
  Replace(it->second.speed, 0);
  base_sum_ -= it->second.base;
  shares_.erase(it);
}

/// 0 is no speed.
void BatchShares::Replace(int64_t old, int64_t speed) {
  if (const auto it = speeds_.find(old); it != speeds_.end()) {
    speeds_.erase(it);
  }
  if (speed > 0) {
    speeds_.insert(speed);
  }
}

double BatchShares::SpeedOf(Incarnation incarnation) const {
  const auto it = shares_.find(incarnation);
  return it == shares_.end()
             ? 1
             : static_cast<double>(it->second.speed) / static_cast<double>(*speeds_.rbegin());
}

uint32_t BatchShares::BatchOf(Incarnation incarnation, uint32_t current) const {
  const auto it = shares_.find(incarnation);
  if (it == shares_.end()) {
    return current;
  }
  const double share = static_cast<double>(base_sum_) *
                       (static_cast<double>(it->second.speed) / static_cast<double>(speed_sum_));
  if (std::abs(share / current - 1) <= kDeadBand) {
    return current;
  }
  const double base = it->second.base;
  const double batch = std::clamp(share, base / kChangeMax, base * kChangeMax);
  return static_cast<uint32_t>(std::max(std::llround(batch), 1LL));
}

}  // namespace ps::coordinator
