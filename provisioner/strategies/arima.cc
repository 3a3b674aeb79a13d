#include <algorithm>
#include <cmath>

#include "provisioner/strategies/forecast.h"

// ARIMA(1,1,0) with a constant: the differences w follow w_t - m = p (w_{t-1} - m) + noise. The
// first one has the stationary distribution, so the likelihood is exact. For each p the best m and
// noise are known in closed form; p is searched.

namespace ps::provisioner {
namespace {

constexpr double kRootMax = 0.999;
constexpr int kRootGrid = 200;

struct FirstOrderFit {
  double mean = 0;
  double cost = 0;  // -2 log likelihood, but for a constant
};

FirstOrderFit FitAt(double root, std::span<const double> w) {
  const auto count = static_cast<double>(w.size());
  double sum = (1 + root) * w[0];
  for (size_t t = 1; t < w.size(); ++t) {
    sum += w[t] - root * w[t - 1];
  }
  FirstOrderFit fit;
  fit.mean = sum / ((1 + root) + (count - 1) * (1 - root));
  double squares = (1 - root * root) * (w[0] - fit.mean) * (w[0] - fit.mean);
  for (size_t t = 1; t < w.size(); ++t) {
    const double noise = w[t] - fit.mean - root * (w[t - 1] - fit.mean);
    squares += noise * noise;
  }
  fit.cost = count * std::log(std::max(squares, 1e-12)) - std::log(1 - root * root);
  return fit;
}

double BestRoot(std::span<const double> w) {
  const auto cost = [&](double root) { return FitAt(root, w).cost; };
  double best = 0;
  for (int i = 0; i <= kRootGrid; ++i) {
    const double root = kRootMax * (2.0 * i / kRootGrid - 1);
    best = cost(root) < cost(best) ? root : best;
  }
  double low = std::max(-kRootMax, best - 2 * kRootMax / kRootGrid);
  double high = std::min(kRootMax, best + 2 * kRootMax / kRootGrid);
  for (int i = 0; i < 60; ++i) {
    const double left = low + (high - low) / 3;
    const double right = high - (high - low) / 3;
    (cost(left) < cost(right) ? high : low) = cost(left) < cost(right) ? right : left;
  }
  return (low + high) / 2;
}

}  // namespace

std::vector<double> ForecastArima(std::span<const double> values, size_t horizon) {
  std::vector<double> w;
  for (size_t t = 1; t < values.size(); ++t) {
    w.push_back(values[t] - values[t - 1]);
  }
  const double root = BestRoot(w);
  const double mean = FitAt(root, w).mean;
  std::vector<double> forecast;
  double level = values.back();
  double change = w.back();
  for (size_t step = 0; step < horizon; ++step) {
    change = mean + root * (change - mean);
    level += change;
    forecast.push_back(level);
  }
  return forecast;
}

}  // namespace ps::provisioner
