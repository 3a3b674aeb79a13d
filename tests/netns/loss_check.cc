#include "tests/netns/loss_check.h"

#include <array>
#include <cstdio>
#include <utility>

#include "provisioner/model/curve_model.h"
#include "provisioner/model/least_squares.h"
#include "provisioner/model/profile_fit.h"
#include "provisioner/model/spotdnn_model.h"
#include "provisioner/profile/statistics.h"

namespace ps::netns {
namespace {

/// The profile's two loss models.
struct LossModels {
  provisioner::CurveLossModel curves;
  provisioner::SpotDnnLossModel spotdnn;
};

Result<LossModels> FitModels(const std::vector<proto::LossSample>& losses) {
  PS_ASSIGN(const proto::CurveFit curves, provisioner::FitCurves(losses));
  std::fprintf(
      stderr,
      "steps(loss) = f(n) %.4g (loss - %.3g)^-%.3g, +-%.1f %%; f(n):",
      curves.steps,
      curves.floor,
      curves.power,
      100 * curves.residual);
  for (const proto::FleetFactor& fleet : curves.fleets) {
    std::fprintf(stderr, " %.2f of %d late %.2f,", fleet.factor, fleet.workers, fleet.late);
  }
  std::vector<proto::LossSample> of_fleets = losses;
  std::erase_if(of_fleets, [](const proto::LossSample& loss) { return loss.workers < 2; });
  PS_ASSIGN(
      const proto::LossFit spotdnn, provisioner::FitLoss(of_fleets, {.has_heterogeneity = false}));
  std::fprintf(stderr, "\nspotDNN's equation: +-%.1f %%\n", 100 * spotdnn.residual);
  return LossModels{
      provisioner::CurveLossModel(curves),
      provisioner::SpotDnnLossModel(spotdnn, provisioner::SpotDnnVariant::kPaper)};
}

}  // namespace

double LossComparison::MedianSeconds() const {
  return provisioner::Median(measured_seconds);
}

Result<std::vector<LossComparison>> CompareLosses(
    const std::vector<Cell>& cells,
    int repeats,
    const proto::JobProfile& profile,
    const Predictor& predictor,
    Cluster* cluster) {
  PS_ASSIGN(const LossModels models, FitModels(profile.losses));
  std::vector<LossComparison> comparisons;
  for (const Cell& cell : cells) {
    LossComparison comparison;
    comparison.cell = cell;
    const provisioner::SpeedPrediction speed = predictor.Predict(cell);
    const auto workers = static_cast<int>(cell.workers.size());
    comparison.steps_per_s = speed.steps_per_s;
    const provisioner::FleetTraits fleet = provisioner::TraitsOf(speed, workers);
    comparison.curve_steps = models.curves.StepsTo(cell.stop_at_loss, fleet);
    comparison.spotdnn_steps = models.spotdnn.StepsTo(cell.stop_at_loss, fleet);
    std::vector<double> steps;
    for (int i = 0; i < repeats; ++i) {
      PS_ASSIGN(const CellResult result, cluster->Run(cell));
      if (result.elapsed_s <= 0 || result.profile.losses.empty()) {
        return Status::Unavailable("a run did not reach the loss");
      }
      comparison.measured_seconds.push_back(result.elapsed_s);
      steps.push_back(result.profile.losses.back().steps);
      std::fprintf(
          stderr,
          "%4.0f Mbit/s, %d workers: loss %.2f after %.1f s and %.0f steps; predicted %.1f s\n",
          cell.server_mbit_per_s,
          workers,
          cell.stop_at_loss,
          result.elapsed_s,
          steps.back(),
          comparison.curve_steps / comparison.steps_per_s);
    }
    comparison.measured_steps = provisioner::Median(steps);
    comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

std::string RenderLosses(const std::vector<LossComparison>& comparisons) {
  std::string text =
      "| Mbit/s | workers | loss | measured s | median | steps | predicted s | steps | error | "
      "spotDNN's equation s | error |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const LossComparison& c : comparisons) {
    std::string runs;
    for (const double seconds : c.measured_seconds) {
      std::array<char, 32> one{};
      std::snprintf(one.data(), one.size(), "%s%.1f", runs.empty() ? "" : ", ", seconds);
      runs += one.data();
    }
    std::array<char, 256> line{};
    std::snprintf(
        line.data(),
        line.size(),
        "| %.0f | %zu | %.2f | %s | %.1f | %.0f | %.1f | %.0f | %+.1f %% | %.1f | %+.1f %% |\n",
        c.cell.server_mbit_per_s,
        c.cell.workers.size(),
        c.cell.stop_at_loss,
        runs.c_str(),
        c.MedianSeconds(),
        c.measured_steps,
        c.curve_steps / c.steps_per_s,
        c.curve_steps,
        100 * c.CurveError(),
        c.spotdnn_steps / c.steps_per_s,
        100 * c.SpotDnnError());
    text += line.data();
  }
  return text;
}

}  // namespace ps::netns
