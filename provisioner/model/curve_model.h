#pragma once

#include <limits>
#include <vector>

#include "provisioner/model/performance_model.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

// Steps to a loss as measured curves of fleets of several sizes tell them.

/// The updates that a gradient misses between the read of its parameters and its arrival: with
/// overlap those of two cycles of each worker, and of three when parameters come late, less its
/// own (Little's law). Without overlap it is one cycle, n - 1: late is 1 then, and what is compared
/// are numbers of workers.
double Staleness(int workers, double late);

/// steps(loss) = f(s, loss) steps (loss - floor)^-power (minibatch / b_w)^batch_power,
/// with f a power law of the staleness s between those of the fleets in the fit, and on from the
/// first and the last of them. f never falls with s. Between the losses of the fit it is
/// interpolated, beyond it is that of the nearest. How unequal workers are does not matter here.
/// Where the fit knows no batch_power, batches above the curves' save no steps, smaller ones no
/// samples.
///
/// For a run that is down to loss l: the steps less those to l, both for this fleet. f is then
/// the factor of what lies between, (f(s, loss) j(loss) - f(s, l) j(l)) / (j(loss) - j(l)) with j
/// those of one worker, for losses that are far enough from l to tell.
class CurveLossModel final : public LossModel {
 public:
  explicit CurveLossModel(const proto::CurveFit& fit, const RunProgress& progress = {});

  double StepsTo(double loss, const FleetTraits& fleet) const override;
  double StepsAtLeast(double loss, const FleetFamily& fleets) const override;

  BatchLine BatchLineOf(const Range& batch_mean) const override;

  double floor() const override { return fit_.floor; }

  double residual() const override { return fit_.residual; }

  /// Grows with the distance from the staleness and the losses that were measured.
  double ResidualAt(double loss, const FleetTraits& fleet) const override;

  /// f
  double Factor(double loss, int workers, double late) const;

 private:
  /// f at one loss.
  struct Row {
    std::vector<double> log_factors;  // by staleness, never falling
    // d ln f / d ln s beyond them.
    double slope_before = 0;
    double slope_after = 0;
  };

  Row MakeRow(std::vector<double> log_factors) const;
  /// Rows of what is left from progress_.loss on, out of those of a whole run.
  void BeginAtProgress();
  double LogFactorAt(double loss, double log_staleness) const;

  bool is_under_way() const { return progress_.loss < kFromStart; }

  double LogFactor(const Row& row, double log_staleness) const;
  double StepsOfOne(double loss) const;
  /// From the beginning of a run, of one worker.
  double AllStepsOfOne(double loss) const;
  /// How many times more steps than with the curves' batch.
  double BatchFactor(double batch_mean) const;

  static constexpr double kFromStart = std::numeric_limits<double>::infinity();

  proto::CurveFit fit_;
  RunProgress progress_;
  std::vector<double> log_staleness_;  // of the fit's fleets, ascending
  std::vector<Row> rows_;              // by the fit's losses; one when it has none
};

}  // namespace ps::provisioner
