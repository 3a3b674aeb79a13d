#include "provisioner/strategies/forecast.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include "provisioner/strategies/lifetimes.h"
#include "provisioner/strategies/parcae_predictor.h"

namespace ps::provisioner {
namespace {

constexpr size_t kArrivalIntervals = 60;  // over which arrivals of late are counted
constexpr size_t kEndedMax = 2000;        // machines that a law of lifetimes is made of
constexpr size_t kQuantileIntervals = 1440;

class CurrentPredictor final : public CountPredictor {
 public:
  std::string_view name() const override { return "current"; }

  std::vector<double> Predict(std::span<const uint32_t> history, size_t horizon) override {
    return std::vector<double>(horizon, history.back());
  }
};

class ArimaPredictor final : public CountPredictor {
 public:
  explicit ArimaPredictor(size_t look_back) : look_back_(std::max<size_t>(3, look_back)) {}

  std::string_view name() const override { return "arima"; }

  std::vector<double> Predict(std::span<const uint32_t> history, size_t horizon) override {
    const auto past = history.last(std::min(history.size(), look_back_));
    if (past.size() < 3 ||
        std::ranges::all_of(past, [&](uint32_t count) { return count == past.front(); })) {
      return std::vector<double>(horizon, history.back());
    }
    std::vector<double> forecast =
        ForecastArima(std::vector<double>(past.begin(), past.end()), horizon);
    for (double& count : forecast) {
      count = std::max(0.0, count);
    }
    return forecast;
  }

 private:
  const size_t look_back_;
};

/// Takes the youngest machines for those that go, since revocations crowd in the first hours.
class SurvivalPredictor final : public CountPredictor {
 public:
  std::string_view name() const override { return "survival"; }

  std::vector<double> Predict(std::span<const uint32_t> history, size_t horizon) override {
    Follow(history);
    std::vector<ObservedLife> lives(ended_.begin(), ended_.end());
    for (const size_t born : born_) {
      lives.push_back({static_cast<double>(history.size() - born), false});
    }
    const Result<LifetimeLaw> law = LifetimeLaw::FromObserved(std::move(lives));
    if (!law.ok()) {
      return std::vector<double>(horizon, history.back());
    }
    const auto since = history.last(std::min(history.size(), kArrivalIntervals + 1));
    double arrivals = 0;
    for (size_t i = 1; i < since.size(); ++i) {
      arrivals += since[i] > since[i - 1] ? since[i] - since[i - 1] : 0;
    }
    arrivals /= static_cast<double>(std::max<size_t>(1, since.size() - 1));
    std::vector<double> forecast;
    double arrived = 0;
    for (size_t step = 1; step <= horizon; ++step) {
      arrived += arrivals * law->SurvivalAt(static_cast<double>(step) - 0.5);
      double left = arrived;
      for (const size_t born : born_) {
        const auto age = static_cast<double>(history.size() - born);
        left += 1 - law->RevokedWithin(age, static_cast<double>(step));
      }
      forecast.push_back(left);
    }
    return forecast;
  }

 private:
  /// Machines come and go as the counts say.
  void Follow(std::span<const uint32_t> history) {
    for (; followed_ < history.size(); ++followed_) {
      while (born_.size() < history[followed_]) {
        born_.push_back(followed_);
      }
      while (born_.size() > history[followed_]) {
        ended_.push_back({static_cast<double>(followed_ - born_.back()), true});
        born_.pop_back();
        if (ended_.size() > kEndedMax) {
          ended_.pop_front();
        }
      }
    }
  }

  size_t followed_ = 0;
  std::vector<size_t> born_;  // of those that are there, ascending
  std::deque<ObservedLife> ended_;
};

/// The median of what followed counts within an eighth of the range of the current one.
class QuantilePredictor final : public CountPredictor {
 public:
  std::string_view name() const override { return "quantile"; }

  std::vector<double> Predict(std::span<const uint32_t> all, size_t horizon) override {
    const auto history = all.last(std::min(all.size(), kQuantileIntervals));
    const uint32_t now = history.back();
    const auto [low, high] = std::ranges::minmax(history);
    const uint32_t reach = (high - low) / 8;
    std::vector<double> forecast;
    for (size_t step = 1; step <= horizon; ++step) {
      std::vector<int> changes;
      for (size_t i = 0; i + step < history.size(); ++i) {
        if (history[i] + reach >= now && history[i] <= now + reach) {
          changes.push_back(static_cast<int>(history[i + step]) - static_cast<int>(history[i]));
        }
      }
      int change = 0;
      if (!changes.empty()) {
        const auto middle = changes.begin() + static_cast<std::ptrdiff_t>(changes.size() / 2);
        std::ranges::nth_element(changes, middle);
        change = *middle;
      }
      forecast.push_back(std::max(0.0, static_cast<double>(now) + change));
    }
    return forecast;
  }
};

/// Keeps forecasts within what there can be: none, and the bound or the most that was ever seen.
class BoundedPredictor final : public CountPredictor {
 public:
  BoundedPredictor(std::unique_ptr<CountPredictor> inner, int high)
      : inner_(std::move(inner)), most_(std::max(0, high)) {}

  std::string_view name() const override { return inner_->name(); }

  size_t history_min() const override { return inner_->history_min(); }

  std::vector<double> Predict(std::span<const uint32_t> history, size_t horizon) override {
    for (; followed_ < history.size(); ++followed_) {
      most_ = std::max<double>(most_, history[followed_]);
    }
    std::vector<double> forecast = inner_->Predict(history, horizon);
    for (double& count : forecast) {
      count = count > 0 ? std::min(count, most_) : 0;  // of -0, too
    }
    return forecast;
  }

 private:
  const std::unique_ptr<CountPredictor> inner_;
  size_t followed_ = 0;
  double most_;
};

}  // namespace

std::unique_ptr<CountPredictor> MakePredictor(
    std::string_view name, size_t history_intervals, ParcaeBounds bounds) {
  std::unique_ptr<CountPredictor> made;
  if (name == "current") {
    made = std::make_unique<CurrentPredictor>();
  } else if (name == "parcae-arima") {
    made = std::make_unique<ParcaePredictor>(history_intervals, bounds);
  } else if (name == "arima") {
    made = std::make_unique<ArimaPredictor>(history_intervals);
  } else if (name == "survival") {
    made = std::make_unique<SurvivalPredictor>();
  } else if (name == "quantile") {
    made = std::make_unique<QuantilePredictor>();
  } else {
    return nullptr;
  }
  return std::make_unique<BoundedPredictor>(std::move(made), bounds.high);
}

std::vector<std::string_view> PredictorNames() {
  return {"current", "parcae-arima", "arima", "survival", "quantile"};
}

Result<std::vector<ForecastScore>> ScorePredictor(
    CountPredictor* predictor, std::span<const uint32_t> counts, const ScoreRequest& request) {
  if (request.horizons.empty() || request.horizons.front() == 0 || request.stride == 0 ||
      !std::ranges::is_sorted(request.horizons) || !(request.band > 0 && request.band < 1)) {
    return Status::InvalidArgument("horizons ascend from 1, a band is between 0 and 1");
  }
  const size_t farthest = request.horizons.back();
  if (counts.size() <= request.warm_up + farthest) {
    return Status::InvalidArgument(fmt::format(
        "the trace has {} intervals; forecasts {} ahead after {} need more",
        counts.size(),
        farthest,
        request.warm_up));
  }
  std::vector<ForecastScore> scores(request.horizons.size());
  std::vector<ForecastBand> bands(scores.size(), ForecastBand(request.band));
  const uint32_t most = std::ranges::max(counts);
  const size_t begin = std::max<size_t>(1, request.warm_up);
  for (size_t now = begin; now + farthest <= counts.size(); now += request.stride) {
    const std::vector<double> forecast = predictor->Predict(counts.first(now), farthest);
    double sum = 0;
    size_t added = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      ForecastScore& score = scores[i];
      const size_t horizon = request.horizons[i];
      for (; added < horizon; ++added) {
        sum += std::abs(forecast[added] - counts[now + added]);
      }
      const uint32_t count = counts[now + horizon - 1];
      const double told = forecast[horizon - 1];
      bands[i].Learn(now - 1);
      if (bands[i].IsReady()) {
        const CountBand band = bands[i].At(told, most);
        ++score.bands;
        score.band_width += band.high - band.low;
        score.band_coverage += band.Holds(count) ? 1 : 0;
        score.coverage_without_low += band.Holds(count) && count != band.low ? 1 : 0;
        score.coverage_without_high += band.Holds(count) && count != band.high ? 1 : 0;
      }
      bands[i].Expect(now + horizon - 1, told, count, most);
      score.horizon = horizon;
      score.error += std::abs(count - told);
      score.window_error += sum / static_cast<double>(horizon);
      ++score.forecasts;
    }
  }
  const std::vector<double> next = predictor->Predict(counts, farthest);
  for (size_t i = 0; i < scores.size(); ++i) {
    ForecastScore& score = scores[i];
    const auto forecasts = static_cast<double>(score.forecasts);
    const auto with_band = static_cast<double>(std::max<size_t>(1, score.bands));
    score.error /= forecasts;
    score.window_error /= forecasts;
    score.band_coverage /= with_band;
    score.band_width /= with_band;
    score.coverage_without_low /= with_band;
    score.coverage_without_high /= with_band;
    score.next = next[score.horizon - 1];
    bands[i].Learn(counts.size() - 1);
    if (bands[i].IsReady()) {
      score.next_band = bands[i].At(score.next, most);
    }
  }
  return scores;
}

}  // namespace ps::provisioner
