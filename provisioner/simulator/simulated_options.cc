#include "provisioner/simulator/simulated_options.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "provisioner/simulator/simulated_launcher.h"

namespace ps::provisioner {
namespace {

/// A worker reports at least so often, or its heartbeats would be most of the events.
constexpr double kLeaseS = 300;
constexpr double kLeaseStepsMax = 1000;

/// Steps that are taken as one.
double StepsTogether(const SimulatedJob& job, double end_s, const CoresOptions& options) {
  const double samples = job.samples_wanted > 0
                             ? std::min(job.samples_wanted, end_s * job.samples_per_s.back())
                             : end_s * job.samples_per_s.back();
  return std::max(1.0, std::ceil(samples / job.step_samples / options.steps_max));
}

uint32_t MinibatchOf(const SimulatedJob& job, double end_s, const CoresOptions& options) {
  return static_cast<uint32_t>(std::clamp<double>(
      std::round(job.step_samples * StepsTogether(job, end_s, options)),
      1,
      proto::kStepSamplesMax));
}

/// Seconds that a worker takes for these samples when all are at work.
double SlowestSeconds(const SimulatedJob& job, double samples) {
  return samples * job.workers_max() / job.samples_per_s.back();
}

proto::WorkerGroup GroupOf(const char* market) {
  proto::WorkerGroup group;
  group.count = 0;  // the policy's wish comes by psctl scale's message
  group.type = market;
  group.zones = {market};
  return group;
}

}  // namespace

double SimulatedStepSeconds(const SimulatedJob& job, double end_s, const CoresOptions& options) {
  return SlowestSeconds(job, MinibatchOf(job, end_s, options));
}

double LongestStepSeconds(const SimulatedJob& job, double end_s, const CoresOptions& options) {
  const double spares = std::ceil(job.workers_max() * kSpareShare);
  double per_sample_s = (job.workers_max() + spares) / job.samples_per_s.back();
  for (uint32_t n = 1; n <= job.workers_max(); ++n) {
    per_sample_s = std::max(per_sample_s, n / job.samples_per_s[n]);
  }
  return per_sample_s * MinibatchOf(job, end_s, options);
}

coordinator::CoordinatorOptions SimulatedCoordinator(
    const SimulatedJob& job, double end_s, const CoresOptions& options) {
  const double step_s = SimulatedStepSeconds(job, end_s, options);
  coordinator::CoordinatorOptions made;
  proto::JobConfig& config = made.config;
  config.name = "simulated";
  config.train.mode = job.mode;
  config.train.minibatch = MinibatchOf(job, end_s, options);
  config.train.epochs = 1;
  config.train.seed = options.seed;
  config.train.lease_steps =
      static_cast<uint32_t>(std::clamp(std::floor(kLeaseS / step_s), 1.0, kLeaseStepsMax));
  config.servers.launch = false;
  config.servers.chunk_kib = 1;
  config.workers = {GroupOf(kSpotGroup), GroupOf(kOnDemandGroup)};
  // Nobody falls silent here: ends are told by the launcher.
  config.fleet.max_detect_s =
      static_cast<float>(std::max({kLeaseS, step_s, 2 * job.detect_s, 2 * job.notice_s}));
  config.fleet.join_timeout_s = static_cast<float>(end_s + job.start_s);
  config.fleet.starts_per_s = 0;
  config.launch.launcher = proto::LauncherKind::kSlurm;
  config.launch.zones = {
      {kSpotGroup, std::string(kSpotPartition)}, {kOnDemandGroup, std::string(kOnDemandPartition)}};
  made.tensors = {{"w", {1000}}};
  made.train_samples = job.samples_wanted > 0
                           ? static_cast<uint64_t>(std::ceil(std::min(job.samples_wanted, 1e18)))
                           : uint64_t{1} << 60U;
  return made;
}

JobFleet::Options SimulatedFleetOptions(const proto::JobConfig& config, const VirtualTime* clock) {
  JobFleet::Options options;
  options.log_directory = "/dev/null";  // where no file can be
  options.make_token_file = [](proto::ProcessKind, uint32_t) -> Result<std::string> {
    return std::string("none");
  };
  options.coordinator = "simulated:1";
  options.launch = config.launch;
  options.job_name = config.name;
  options.time = clock;
  return options;
}

}  // namespace ps::provisioner
