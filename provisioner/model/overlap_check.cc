#include "provisioner/model/overlap_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "provisioner/model/job_models.h"
#include "provisioner/model/queue_model.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

/// The queue of the profile's types, each with its first minibatch.
class QueueOf {
 public:
  explicit QueueOf(const proto::JobProfile& profile) {
    std::vector<WorkerClass> classes;
    for (const proto::WorkerProfile& worker : profile.workers) {
      if (std::ranges::find(classes, worker.instance_type, &WorkerClass::name) == classes.end()) {
        classes.push_back(
            {.name = worker.instance_type,
             .compute_s = worker.compute_s,
             .samples = static_cast<double>(worker.minibatch),
             .link_bytes_per_s = RequestBytesPerS(profile)});
      }
    }
    model_ = std::make_unique<QueueSpeedModel>(classes, TrafficOf(profile), profile.queue);
  }

  /// 0: it knows nothing of one of the workers.
  double MeanStepSeconds(const proto::FleetSample& fleet) const {
    std::vector<int> counts;
    int known = 0;
    for (const WorkerClass& worker : model_->classes()) {
      counts.push_back(static_cast<int>(std::ranges::count(fleet.workers, worker.name)));
      known += counts.back();
    }
    const auto workers = static_cast<int>(fleet.workers.size());
    if (known != workers) {
      return 0;
    }
    const ServerSide servers{fleet.server_hosts, fleet.server_bytes_per_s};
    return workers / model_->Predict(counts, servers).steps_per_s;
  }

 private:
  std::unique_ptr<QueueSpeedModel> model_;
};

}  // namespace

Result<OverlapWorker> OverlapWorkerOf(const proto::JobProfile& profile, const std::string& type) {
  const proto::StepTimes* const times = profile.FindSteps(type);
  if (times == nullptr) {
    return Status::NotFound(fmt::format(
        "the profile has no forward and backward times of {}; `psctl profile --instrument` takes "
        "them",
        Printable(type)));
  }
  if (profile.link.exchanges == 0) {
    return Status::InvalidArgument(
        "the profile has no rates of a worker's link; `psctl profile --instrument` takes them");
  }
  OverlapWorker worker;
  worker.step.forward_s = times->forward_s;
  worker.step.backward_s = times->backward_s;
  for (const proto::TensorReady& tensor : times->tensors) {
    worker.step.buckets.push_back({tensor.bytes, tensor.ready});
  }
  worker.step.pull_bytes = profile.pull_bytes > 0 ? profile.pull_bytes : profile.parameter_bytes;
  worker.link = {
      profile.link.push_bytes_per_s, profile.link.pull_bytes_per_s, profile.link.round_trip_s};
  return worker;
}

double MeanStepSeconds(std::span<const double> step_s) {
  double rate = 0;
  for (const double seconds : step_s) {
    rate += 1 / seconds;
  }
  return static_cast<double>(step_s.size()) / rate;
}

Result<std::vector<StepComparison>> CompareStepModels(
    const proto::JobProfile& profile, ExchangeKind kind) {
  Status missing = Status::NotFound("the profile has no fleet whose speed was measured");
  if (profile.workers.empty()) {
    return missing;
  }
  const QueueOf queue(profile);
  std::vector<StepComparison> comparisons;
  for (const proto::FleetSample& fleet : profile.fleets) {
    std::vector<OverlapWorker> workers;
    for (const std::string& type : fleet.workers) {
      Result<OverlapWorker> worker = OverlapWorkerOf(profile, type);
      if (!worker.ok()) {
        missing = worker.status();
        break;
      }
      workers.push_back(std::move(worker).value());
    }
    StepComparison comparison;
    comparison.queue_s = queue.MeanStepSeconds(fleet);
    if (workers.size() != fleet.workers.size() || comparison.queue_s <= 0) {
      continue;
    }
    comparison.fleet = fleet;
    comparison.measured_s = static_cast<double>(workers.size()) / fleet.steps_per_s;
    comparison.overlap_s = MeanStepSeconds(
        OverlapStepSeconds(workers, {fleet.server_hosts, fleet.server_bytes_per_s}, kind));
    comparisons.push_back(std::move(comparison));
  }
  if (comparisons.empty()) {
    return missing;
  }
  return comparisons;
}

}  // namespace ps::provisioner
