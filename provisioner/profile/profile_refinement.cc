#include "provisioner/profile/profile_refinement.h"

#include <algorithm>
#include <cmath>

#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

/// A step's time is the mean over so many steps at most: machines and programs change.
constexpr int kStepsKept = 10000;
/// Above this share some process waits for a processor, so its times are not its own.
constexpr double kBusyMax = 0.9;
/// Times further apart than this factor aren't of the same machine.
constexpr double kSameStep = 1.25;
constexpr double kWatchedMinS = 3;
/// A loss curve with fewer points is not fitted.
constexpr size_t kCurvePointsMin = 20;

/// The mean of both, weighted by their steps.
proto::WorkerProfile Pooled(const proto::WorkerProfile& older, const proto::WorkerProfile& told) {
  proto::WorkerProfile pooled = told;
  const double steps = std::max(older.steps_measured + double{1} * told.steps_measured, 1.0);
  const double share = told.steps_measured / steps;
  pooled.compute_s = older.compute_s + share * (told.compute_s - older.compute_s);
  pooled.compute_stddev_s = std::hypot(
      older.compute_stddev_s * std::sqrt(1 - share), told.compute_stddev_s * std::sqrt(share));
  pooled.steps_measured = static_cast<int>(std::min<double>(steps, kStepsKept));
  return pooled;
}

std::string StepText(const proto::WorkerProfile& worker) {
  return FormatFixed(1000 * worker.compute_s, 2) + " ms";
}

/// Why the speeds measured by a run are not those of its machines; empty when they are.
std::string Distrust(
    const proto::JobProfile& older, const proto::JobProfile& told, double machine_busy) {
  if (machine_busy > kBusyMax) {
    return "this machine's processors were " + FormatPercent(machine_busy) + " busy";
  }
  for (const proto::WorkerProfile& worker : told.workers) {
    const proto::WorkerProfile* known = older.Find(worker.instance_type, worker.minibatch);
    if (known != nullptr &&
        std::abs(std::log(worker.compute_s / known->compute_s)) > std::log(kSameStep)) {
      return "a step of " + Printable(worker.instance_type) + " with minibatch " +
             std::to_string(worker.minibatch) + " took " + StepText(worker) + " against " +
             StepText(*known) + " before; if that is so from now on: psctl profile";
    }
  }
  if (!told.fleets.empty() && told.fleets.front().seconds < kWatchedMinS) {
    return "watched too briefly";
  }
  return "";
}

}  // namespace

Refinement RefinementBy(
    const proto::JobProfile& older, const proto::JobProfile& told, double machine_busy) {
  Refinement refinement;
  refinement.part = told;
  proto::JobProfile& part = refinement.part;
  // A worker's own rate is only known while it does nothing but wait for its bytes.
  part.request_bytes_per_s = 0;
  if (const std::string why = Distrust(older, told, machine_busy); !why.empty()) {
    if (!part.workers.empty() || !part.fleets.empty()) {
      refinement.left_out.push_back("speeds, since " + why);
    }
    part.workers.clear();
    part.fleets.clear();
  }
  for (proto::WorkerProfile& worker : part.workers) {
    const proto::WorkerProfile* known = older.Find(worker.instance_type, worker.minibatch);
    if (known != nullptr) {
      worker = Pooled(*known, worker);
    }
  }
  if (part.push_bytes > 0) {
    refinement.learnt.push_back("the bytes of a step");
  }
  if (!part.workers.empty()) {
    refinement.learnt.push_back("step times");
  }
  for (const proto::FleetSample& fleet : part.fleets) {
    refinement.learnt.push_back("the speed of " + Plural(fleet.workers.size(), "worker"));
  }
  if (part.losses.size() < kCurvePointsMin) {
    part.losses.clear();
  } else {
    const auto workers = static_cast<uint64_t>(part.losses.front().workers);
    refinement.learnt.push_back("a loss curve of " + Plural(workers, "worker"));
  }
  return refinement;
}

}  // namespace ps::provisioner
