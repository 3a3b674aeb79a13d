#pragma once

#include <memory>
#include <string>
#include <vector>

#include "provisioner/model/performance_model.h"
#include "ps/base/status.h"
#include "ps/proto/files/profile.h"
#include "tests/netns/cluster.h"

namespace ps::netns {

/// What is left of a link's rate as tbf counts it for parameters when it is busy both ways: 8948
/// of 9014 bytes of a full segment, less the acknowledgements of the other direction's.
inline constexpr double kPayloadShare = 0.989;

double PayloadBytesPerS(double mbit_per_s);

/// A cell with what came out of it and what the model said.
struct Comparison {
  Cell cell;
  bool is_profiled = false;  // the model knows this cell
  double measured_steps_per_s = 0;
  double measured_samples_per_s = 0;
  provisioner::SpeedPrediction predicted;
  // Mean share of the workers' time in which they do not compute.
  double contention_share = 0;
  double cpu_share = 0;

  double Error() const { return predicted.samples_per_s / measured_samples_per_s - 1; }
};

/// The queue model of what was measured with one and with two workers.
class Predictor {
 public:
  /// `profile` holds a worker of each type, and the fleets to fit to.
  static Result<Predictor> Make(const proto::JobProfile& profile);

  provisioner::SpeedPrediction Predict(const Cell& cell) const;

  const proto::QueueFit& fit() const { return fit_; }

 private:
  proto::QueueFit fit_;
  std::shared_ptr<const provisioner::SpeedModel> model_;
};

struct ErrorSummary {
  double median = 0;
  double max = 0;
  int cells = 0;
  int contended = 0;  // contention_share of half or more
};

ErrorSummary Summarise(const std::vector<Comparison>& comparisons);

/// As Markdown.
std::string RenderTable(const std::vector<Comparison>& comparisons);

}  // namespace ps::netns
