#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "provisioner/model/performance_model.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

// The models of spotDNN (IWQoS 2023), equations (1) to (10), as published; where its released
// prototype differs, under that name.

enum class SpotDnnVariant : unsigned char {
  // As the paper has it. P is kept from falling below 0, where (9) leaves a probability.
  kPaper,
  // As the released program computes. P may fall below 0. The PCIe term of (7) is not in the step:
  // the program's own figure of computation holds it (see PrototypeComputeSeconds). The
  // weighted-average batch is rounded to one decimal and steps to whole ones, before they are used.
  kPrototype,
};

struct SpotDnnOptions {
  SpotDnnVariant variant = SpotDnnVariant::kPaper;
  // Lengthens communication under contention by this share, against plans that are just in time.
  // The paper uses 0.01 to 0.05.
  double contention_margin = 0;
};

/// One step of worker i in a fleet of n:
///   T_i  = T_comp + (push + pull) / B_wk + g pcie / B_pcie              (6, 7)
///   B_wk = P B_ps / n + (1 - P) B_req  if B_req > B_ps / n, else B_req  (8)
///   P    = min(a1 sqrt(n) + b1, 1)                                      (9)
/// With local steps an exchange is spread over them, and what overlaps with computation is hidden.
/// Exact bounds: a step depends on the number of workers only.
/// Requires: every class has link_bytes_per_s > 0.
class SpotDnnSpeedModel final : public SpeedModel {
 public:
  SpotDnnSpeedModel(
      std::vector<WorkerClass> classes,
      const JobTraffic& traffic,
      const proto::ContentionFit& fit,
      const SpotDnnOptions& options);

  std::string_view name() const override {
    return options_.variant == SpotDnnVariant::kPaper ? "spotdnn" : "spotdnn-prototype";
  }

  const std::vector<WorkerClass>& classes() const override { return classes_; }

  SpeedPrediction Predict(std::span<const int> counts, const ServerSide& servers) const override;
  std::vector<double> StepSeconds(
      std::span<const int> counts, const ServerSide& servers) const override;
  SpeedBounds Bound(int workers, const ServerSide& servers) const override;

  bool has_proven_bounds() const override { return true; }

  double residual() const override { return fit_.residual; }

  /// For n_upper (15).
  const proto::ContentionFit& fit() const { return fit_; }

  /// [B_wk] of a class in a fleet of `workers`, bytes/s.
  double Bandwidth(const WorkerClass& worker, int workers, const ServerSide& servers) const;

 private:
  double CommunicationSeconds(
      const WorkerClass& worker, int workers, const ServerSide& servers) const;

  std::vector<WorkerClass> classes_;
  JobTraffic traffic_;
  proto::ContentionFit fit_;
  SpotDnnOptions options_;
};

/// CM-DARE: every worker is as fast in a fleet as alone. `residual` is what a fit left.
class IdealSpeedModel final : public SpeedModel {
 public:
  IdealSpeedModel(std::vector<WorkerClass> classes, const JobTraffic& traffic, double residual);

  std::string_view name() const override { return "ideal"; }

  const std::vector<WorkerClass>& classes() const override { return classes_; }

  SpeedPrediction Predict(std::span<const int> counts, const ServerSide& servers) const override;
  std::vector<double> StepSeconds(
      std::span<const int> counts, const ServerSide& servers) const override;
  SpeedBounds Bound(int workers, const ServerSide& servers) const override;

  bool has_proven_bounds() const override { return true; }

  double residual() const override { return residual_; }

 private:
  std::vector<WorkerClass> classes_;
  JobTraffic traffic_;
  double residual_;
};

/// loss(j) = (c2 b_w + c3) sqrt((R + c4) n) / (j + c1) + c5                (3)
/// fit.has_heterogeneity = false drops R and c4: sqrt(n), as the prototype. No number of steps
/// reaches a loss at or below c5, or any loss with a batch so large that c2 b_w + c3 <= 0.
/// `batch_least`: of batches below it the fit knows nothing, and a smaller one saves no samples:
/// the steps are those of `batch_least` by the equation, times batch_least / b_w. 0: none.
/// For a run that is under way: the steps to the loss, less those to its present loss, both for
/// this fleet.
class SpotDnnLossModel final : public LossModel {
 public:
  SpotDnnLossModel(
      const proto::LossFit& fit,
      SpotDnnVariant variant,
      double batch_least = 0,
      const RunProgress& progress = {});

  double StepsTo(double loss, const FleetTraits& fleet) const override;
  double StepsAtLeast(double loss, const FleetFamily& fleets) const override;
  BatchLine BatchLineOf(const Range& batch_mean) const override;

  double floor() const override { return fit_.c5; }

  double residual() const override { return fit_.residual; }

  /// For n_lower (16).
  const proto::LossFit& fit() const { return fit_; }

  /// The loss after `steps` of all workers together.
  double LossAt(double steps, double batch_mean, double heterogeneity, int workers) const;

 private:
  double Scale(double batch_mean, double heterogeneity, int workers) const;
  double StepsOfScale(double loss, double scale) const;
  /// How many times more steps than with `batch_least`.
  double SmallBatchFactor(double batch_mean) const;

  proto::LossFit fit_;
  SpotDnnVariant variant_;
  double batch_least_;
  RunProgress progress_;
};

/// The iteration of a worker alone, of whose class compute_s is the paper's: the inverse of
/// PaperComputeSeconds.
double IterationSeconds(const WorkerClass& worker, const JobTraffic& traffic);

/// [T_comp] from the iteration that one worker was measured at: the iteration less its
/// communication (6, 7).
double PaperComputeSeconds(
    double iteration_s, const WorkerClass& worker, const JobTraffic& traffic);

/// The prototype's figure: it adds the PCIe time, which the paper takes away, and predicts steps
/// without it.
double PrototypeComputeSeconds(
    double iteration_s, const WorkerClass& worker, const JobTraffic& traffic);

}  // namespace ps::provisioner
