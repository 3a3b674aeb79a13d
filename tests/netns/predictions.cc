#include "tests/netns/predictions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "provisioner/model/job_models.h"
#include "provisioner/model/profile_fit.h"
#include "provisioner/model/queue_model.h"

namespace ps::netns {
namespace {

constexpr double kBytesPerMbit = 1e6 / 8;

template <typename... Values>
std::string Format(const char* format, Values... values) {
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), format, values...);
  return line.data();
}

}  // namespace

double PayloadBytesPerS(double mbit_per_s) {
  return mbit_per_s * kBytesPerMbit * kPayloadShare;
}

Result<Predictor> Predictor::Make(const proto::JobProfile& profile) {
  provisioner::FitJob job;
  for (const proto::WorkerProfile& worker : profile.workers) {
    job.classes.push_back(
        {.name = worker.instance_type,
         .compute_s = worker.compute_s,
         .samples = static_cast<double>(worker.minibatch)});
  }
  job.traffic = provisioner::TrafficOf(profile);
  Predictor predictor;
  PS_ASSIGN(predictor.fit_, provisioner::FitQueue(job, profile.fleets));
  predictor.model_ =
      std::make_shared<provisioner::QueueSpeedModel>(job.classes, job.traffic, predictor.fit_);
  return predictor;
}

provisioner::SpeedPrediction Predictor::Predict(const Cell& cell) const {
  std::vector<int> counts;
  for (const provisioner::WorkerClass& known : model_->classes()) {
    counts.push_back(static_cast<int>(std::ranges::count_if(
        cell.workers, [&](const WorkerSpec& worker) { return worker.type() == known.name; })));
  }
  return model_->Predict(
      counts,
      {.hosts = cell.servers, .link_bytes_per_s = PayloadBytesPerS(cell.server_mbit_per_s)});
}

ErrorSummary Summarise(const std::vector<Comparison>& comparisons) {
  ErrorSummary summary;
  std::vector<double> errors;
  for (const Comparison& comparison : comparisons) {
    errors.push_back(std::abs(comparison.Error()));
    summary.contended += comparison.contention_share >= 0.5 ? 1 : 0;
  }
  if (errors.empty()) {
    return summary;
  }
  std::ranges::sort(errors);
  const size_t middle = errors.size() / 2;
  summary.median =
      errors.size() % 2 == 1 ? errors[middle] : (errors[middle - 1] + errors[middle]) / 2;
  summary.max = errors.back();
  summary.cells = static_cast<int>(errors.size());
  return summary;
}

std::string RenderTable(const std::vector<Comparison>& comparisons) {
  std::string text =
      "| Mbit/s | workers | measured steps/s | samples/s | predicted samples/s | error | "
      "not computing | link busy | bottleneck | profiled | cores |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Comparison& c : comparisons) {
    text += Format(
        "| %.0f | %zu | %.2f | %.1f | %.1f | %+.1f %% | %.0f %% | %.0f %% | %s | %s | %.2f |\n",
        c.cell.server_mbit_per_s,
        c.cell.workers.size(),
        c.measured_steps_per_s,
        c.measured_samples_per_s,
        c.predicted.samples_per_s,
        100 * c.Error(),
        100 * c.contention_share,
        100 * c.predicted.server_busy,
        std::string(provisioner::BottleneckName(c.predicted.bottleneck)).c_str(),
        c.is_profiled ? "yes" : "",
        c.cpu_share);
  }
  return text;
}

}  // namespace ps::netns
