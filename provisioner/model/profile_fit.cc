#include "provisioner/model/profile_fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "provisioner/model/job_models.h"
#include "provisioner/profile/statistics.h"

namespace ps::provisioner {

int MemoryFit::LargestMinibatch(double device_memory_gib) const {
  const double fits = samples_per_gib * device_memory_gib + offset;
  if (!(fits >= 1)) {
    return 0;
  }
  constexpr double kMost = 1 << 30;
  return static_cast<int>(std::bit_floor(static_cast<uint32_t>(std::min(fits, kMost))));
}

Result<MemoryFit> FitMemory(std::span<const MemorySample> samples) {
  // Theil and Sen's line: the median of the slopes between all pairs, then of the offsets.
  std::vector<double> slopes;
  std::set<int> sizes;
  for (const MemorySample& one : samples) {
    sizes.insert(one.minibatch);
    for (const MemorySample& other : samples) {
      if (one.device_memory_gib < other.device_memory_gib) {
        slopes.push_back(
            (other.minibatch - one.minibatch) / (other.device_memory_gib - one.device_memory_gib));
      }
    }
  }
  if (sizes.size() < 2 || slopes.empty()) {
    return Status::InvalidArgument(fmt::format(
        "memory needs 2 different minibatches that take different amounts of it; there "
        "are {} minibatches",
        sizes.size()));
  }
  MemoryFit fit;
  fit.samples_per_gib = Median(slopes);
  if (fit.samples_per_gib <= 0) {
    return Status::InvalidArgument(
        "memory does not grow with the minibatch in these measurements: repeat them with larger "
        "minibatches");
  }
  std::vector<double> offsets;
  for (const MemorySample& one : samples) {
    offsets.push_back(one.minibatch - fit.samples_per_gib * one.device_memory_gib);
  }
  fit.offset = Median(offsets);
  std::vector<double> errors;
  for (const MemorySample& one : samples) {
    errors.push_back(
        (fit.samples_per_gib * one.device_memory_gib + fit.offset) / one.minibatch - 1);
  }
  fit.residual = RobustDeviation(errors, 0);
  fit.samples = static_cast<int>(samples.size());
  return fit;
}

std::vector<std::string> RefitProfile(const FitJob& job, proto::JobProfile* profile) {
  std::vector<std::string> missing;
  Result<proto::QueueFit> queue = FitQueue(job, profile->fleets);
  if (queue.ok()) {
    profile->queue = *queue;
  } else {
    missing.emplace_back(queue.status().message());
  }
  Result<proto::ContentionFit> contention = FitContention(job, profile->fleets);
  if (contention.ok()) {
    profile->contention = *contention;
  } else {
    missing.emplace_back(contention.status().message());
  }
  // A worker alone never works with parameters that others have changed meanwhile: with its curve
  // spotDNN's root of n fits no fleet.
  std::vector<proto::LossSample> losses = profile->losses;
  const auto is_alone = [](const proto::LossSample& loss) { return loss.workers < 2; };
  if (!std::ranges::all_of(losses, is_alone)) {
    std::erase_if(losses, is_alone);
  }
  Result<proto::LossFit> loss = FitLoss(losses, {.has_heterogeneity = true});
  if (!loss.ok()) {
    loss = FitLoss(losses, {.has_heterogeneity = false});
  }
  if (loss.ok()) {
    profile->loss = *loss;
  }
  Result<proto::CurveFit> curves = FitCurves(profile->losses);
  if (curves.ok()) {
    profile->curves = std::move(curves).value();
    if (profile->curves.fleets.size() == 1) {
      missing.emplace_back(
          "how steps grow with the fleet: all loss curves are of one size of fleet, others are "
          "extrapolated");
    }
  } else {
    missing.emplace_back(curves.status().message());
  }
  return missing;
}

std::vector<std::string> FitProfile(proto::JobProfile* profile) {
  FitJob job;
  for (const proto::WorkerProfile& worker : profile->workers) {
    const bool is_known = std::ranges::any_of(
        job.classes, [&](const auto& known) { return known.name == worker.instance_type; });
    if (!is_known) {
      job.classes.push_back(
          {.name = worker.instance_type,
           .compute_s = worker.compute_s,
           .samples = static_cast<double>(worker.minibatch),
           .link_bytes_per_s = profile->request_bytes_per_s});
    }
  }
  job.traffic = TrafficOf(*profile);
  return RefitProfile(job, profile);
}

}  // namespace ps::provisioner
