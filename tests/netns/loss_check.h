#pragma once

#include <string>
#include <vector>

#include "ps/base/status.h"
#include "tests/netns/cluster.h"
#include "tests/netns/predictions.h"

namespace ps::netns {

/// Runs of one fleet to a loss, against what was predicted of it.
struct LossComparison {
  Cell cell;
  std::vector<double> measured_seconds;  // of each run
  double measured_steps = 0;             // median
  double steps_per_s = 0;                // predicted, as are the others
  double curve_steps = 0;                // by the profile's curves
  double spotdnn_steps = 0;              // by spotDNN's equation

  double MedianSeconds() const;

  double CurveError() const { return curve_steps / steps_per_s / MedianSeconds() - 1; }

  double SpotDnnError() const { return spotdnn_steps / steps_per_s / MedianSeconds() - 1; }
};

/// Trains each of `cells` `repeats` times down to its loss. `profile` holds the loss curves.
Result<std::vector<LossComparison>> CompareLosses(
    const std::vector<Cell>& cells,
    int repeats,
    const proto::JobProfile& profile,
    const Predictor& predictor,
    Cluster* cluster);

/// As Markdown.
std::string RenderLosses(const std::vector<LossComparison>& comparisons);

}  // namespace ps::netns
