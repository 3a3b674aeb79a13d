#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "provisioner/strategies/forecast.h"

namespace ps::provisioner {

/// Parcae's predictor; see MakePredictor.
class ParcaePredictor final : public CountPredictor {
 public:
  ParcaePredictor(size_t look_back, ParcaeBounds bounds) : look_back_(look_back), bounds_(bounds) {}

  std::string_view name() const override { return "parcae-arima"; }

  size_t history_min() const override { return std::max<size_t>(3, look_back_) + 1; }

  std::vector<double> Predict(std::span<const uint32_t> history, size_t horizon) override;

 private:
  /// Windows that only rise or only fall, by 5 or more, dampen every forecast from then on.
  void NoteSteepness(const std::vector<double>& past);
  std::vector<double> Walk(
      double last, const std::vector<double>& counts, double removal_mean, uint64_t seed) const;

  const size_t look_back_;
  const ParcaeBounds bounds_;
  double in_penalty_ = 1;
  double out_penalty_ = 1;
};

}  // namespace ps::provisioner
