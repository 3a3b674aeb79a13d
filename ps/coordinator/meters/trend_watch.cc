#include "ps/coordinator/meters/trend_watch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ps::coordinator {
namespace {

/// Steps whose mean is compared with those before: one odd minibatch is no spike.
constexpr size_t kRecent = 10;
/// Before so many there is nothing to compare with.
constexpr uint64_t kUsualMin = 50;
constexpr double kForget = 0.02;  // of what is usual, with each step
/// A spike is higher than usual by half, by four deviations, and by so much of the first losses:
/// near the end of training small numbers jump for nothing.
constexpr double kSpikeShare = 0.5;
constexpr double kSpikeDeviations = 4;
constexpr double kOfFirst = 0.05;
constexpr double kBackShare = 0.2;
/// What lasts for so many steps has become usual.
constexpr uint64_t kSpikeMax = 1000;

constexpr double kIntervalForget = 0.05;
constexpr uint64_t kIntervalsMin = 10;
constexpr double kStallMinS = 30;
constexpr double kStallTimes = 20;

constexpr Duration kAgeEvery = std::chrono::minutes(1);
constexpr double kAgeTimes = 2;
constexpr double kAgeSteps = 2;

}  // namespace

double TrendWatch::RecentLoss() const {
  return std::accumulate(recent_.begin(), recent_.end(), 0.0) / static_cast<double>(recent_.size());
}

void TrendWatch::AddUsual(double loss) {
  const double weight = std::max(kForget, 1.0 / static_cast<double>(++usual_count_));
  const double difference = loss - usual_;
  usual_ += weight * difference;
  variance_ = (1 - weight) * (variance_ + weight * difference * difference);
}

std::optional<TrendWatch::LossTurn> TrendWatch::JudgeLoss() {
  const double loss = RecentLoss();
  const double deviations =
      kSpikeDeviations * std::sqrt(variance_ / static_cast<double>(recent_.size()));
  if (!is_spiking_) {
    const double rise =
        std::max({kSpikeShare * std::abs(usual_), deviations, kOfFirst * std::abs(first_)});
    if (usual_count_ < kUsualMin || loss <= usual_ + rise) {
      return std::nullopt;
    }
    is_spiking_ = true;
    spike_steps_ = 0;
    return LossTurn{true, loss, usual_, kRecent};
  }
  ++spike_steps_;
  if (loss <= usual_ + std::max(kBackShare * std::abs(usual_), deviations / 2)) {
    is_spiking_ = false;
    return LossTurn{false, loss, usual_, spike_steps_};
  }
  if (spike_steps_ >= kSpikeMax) {
    is_spiking_ = false;
    usual_ = loss;
    usual_count_ = 0;
  }
  return std::nullopt;
}

std::optional<TrendWatch::LossTurn> TrendWatch::OnStep(std::optional<double> loss, TimePoint now) {
  if (last_step_) {
    const double seconds = Seconds(now - *last_step_);
    const double weight = std::max(kIntervalForget, 1.0 / static_cast<double>(++intervals_));
    interval_s_ += weight * (seconds - interval_s_);
  }
  last_step_ = now;
  is_stall_told_ = false;
  if (!loss || !std::isfinite(*loss)) {
    return std::nullopt;
  }
  recent_.push_back(*loss);
  if (recent_.size() <= kRecent) {
    first_ = RecentLoss();
    return std::nullopt;
  }
  const double oldest = recent_.front();
  recent_.pop_front();
  if (!is_spiking_) {
    AddUsual(oldest);
  }
  return JudgeLoss();
}

std::optional<TrendWatch::Stall> TrendWatch::OnTick(bool is_expected, TimePoint now) {
  if (!is_expected) {
    last_step_.reset();
    return std::nullopt;
  }
  if (!last_step_) {
    last_step_ = now;
  }
  const double waited_s = Seconds(now - *last_step_);
  if (is_stall_told_ || intervals_ < kIntervalsMin ||
      waited_s < std::max(kStallMinS, kStallTimes * interval_s_)) {
    return std::nullopt;
  }
  is_stall_told_ = true;
  return Stall{waited_s, interval_s_};
}

bool TrendWatch::WantsStaleness(TimePoint now) const {
  return !aged_at_ || now - *aged_at_ >= kAgeEvery;
}

std::optional<TrendWatch::Ageing> TrendWatch::OnStaleness(
    double staleness, size_t workers, TimePoint now) {
  aged_at_ = now;
  if (workers != workers_) {
    workers_ = workers;
    usual_staleness_.reset();
    return std::nullopt;
  }
  if (!usual_staleness_ || staleness < *usual_staleness_ / kAgeTimes) {
    usual_staleness_ = staleness;
    return std::nullopt;
  }
  if (staleness < kAgeTimes * *usual_staleness_ + kAgeSteps) {
    return std::nullopt;
  }
  const Ageing ageing = {staleness, *usual_staleness_};
  usual_staleness_ = staleness;
  return ageing;
}

}  // namespace ps::coordinator
