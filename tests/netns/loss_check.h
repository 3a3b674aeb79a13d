#pragma once

#include <string>
#include <vector>

#include "ps/base/status.h"
#include "tests/netns/cluster.h"
#include "tests/netns/predictions.h"

namespace ps::netns {

/// A run to a loss, against what was predicted of it.
struct LossComparison {
  Cell cell;
  double measured_seconds = 0;
  // By the loss model of the profile (spotDNN's equation), and by the mean of the profile's own
  // curves, as if fleets made no difference.
  double model_steps = 0;
  double curve_steps = 0;
  double steps_per_s = 0;  // predicted

  double ModelError() const { return model_steps / steps_per_s / measured_seconds - 1; }

  double CurveError() const { return curve_steps / steps_per_s / measured_seconds - 1; }
};

/// Steps at which a curve is first down to `loss`, between its points; 0: never.
double StepsOfCurve(const std::vector<proto::LossSample>& curve, double loss);

/// Trains each of `fleets` at each of their links' rates down to `loss`. `curves` are those of the
/// profile.
Result<std::vector<LossComparison>> CompareLosses(
    const std::vector<Cell>& cells,
    const std::vector<std::vector<proto::LossSample>>& curves,
    const Predictor& predictor,
    Cluster* cluster);

/// As Markdown.
std::string RenderLosses(const std::vector<LossComparison>& comparisons);

}  // namespace ps::netns
