#include "tests/netns/loss_check.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "provisioner/profile_fit.h"
#include "provisioner/spotdnn_model.h"

namespace ps::netns {

double StepsOfCurve(const std::vector<proto::LossSample>& curve, double loss) {
  for (size_t i = 1; i < curve.size(); ++i) {
    const proto::LossSample& before = curve[i - 1];
    const proto::LossSample& after = curve[i];
    if (before.loss > loss && after.loss <= loss) {
      const double share = (before.loss - loss) / (before.loss - after.loss);
      return before.steps + share * (after.steps - before.steps);
    }
  }
  return 0;
}

Result<std::vector<LossComparison>> CompareLosses(
    const std::vector<Cell>& cells,
    const std::vector<std::vector<proto::LossSample>>& curves,
    const Predictor& predictor,
    Cluster* cluster) {
  std::vector<proto::LossSample> all;
  for (const std::vector<proto::LossSample>& curve : curves) {
    all.insert(all.end(), curve.begin(), curve.end());
  }
  PS_ASSIGN(const proto::LossFit fit, provisioner::FitLoss(all, {.has_heterogeneity = false}));
  std::fprintf(
      stderr,
      "loss(j) = %.4g sqrt(n) / (j + %.4g) + %.4g, +-%.1f %% of j\n",
      fit.c3,
      fit.c1,
      fit.c5,
      100 * fit.residual);
  const provisioner::SpotDnnLossModel model(fit, provisioner::SpotDnnVariant::kPaper);
  std::vector<LossComparison> comparisons;
  for (const Cell& cell : cells) {
    PS_ASSIGN(const CellResult result, cluster->Run(cell));
    LossComparison comparison;
    comparison.cell = cell;
    const provisioner::SpeedPrediction speed = predictor.Predict(cell);
    comparison.steps_per_s = speed.steps_per_s;
    comparison.model_steps = model.StepsTo(
        cell.stop_at_loss,
        speed.batch_mean,
        speed.heterogeneity,
        static_cast<int>(cell.workers.size()));
    double sum = 0;
    for (const std::vector<proto::LossSample>& curve : curves) {
      sum += StepsOfCurve(curve, cell.stop_at_loss);
    }
    comparison.curve_steps = sum / static_cast<double>(curves.size());
    if (result.elapsed_s <= 0) {
      return Status::Unavailable("a run did not reach the loss");
    }
    comparison.measured_seconds = result.elapsed_s;
    std::fprintf(
        stderr,
        "%4.0f Mbit/s, %zu workers: loss %.2f after %.1f s\n",
        cell.server_mbit_per_s,
        cell.workers.size(),
        cell.stop_at_loss,
        comparison.measured_seconds);
    comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

std::string RenderLosses(const std::vector<LossComparison>& comparisons) {
  std::string text =
      "| Mbit/s | workers | loss | measured s | predicted s, loss model | error | predicted s, "
      "profile's curves | error |\n|---|---|---|---|---|---|---|---|\n";
  for (const LossComparison& c : comparisons) {
    std::array<char, 256> line{};
    std::snprintf(
        line.data(),
        line.size(),
        "| %.0f | %zu | %.2f | %.1f | %.1f | %+.1f %% | %.1f | %+.1f %% |\n",
        c.cell.server_mbit_per_s,
        c.cell.workers.size(),
        c.cell.stop_at_loss,
        c.measured_seconds,
        c.model_steps / c.steps_per_s,
        100 * c.ModelError(),
        c.curve_steps / c.steps_per_s,
        100 * c.CurveError());
    text += line.data();
  }
  return text;
}

}  // namespace ps::netns
