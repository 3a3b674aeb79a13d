#include "provisioner/profile/profile_runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "provisioner/profile/exchange_penalty.h"
#include "provisioner/profile/local_steps.h"
#include "provisioner/profile/plan_run.h"
#include "provisioner/profile/profile_merge.h"
#include "ps/base/check.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

/// The largest minibatch that is tried, as a multiple of the job's own.
constexpr int kMinibatchGrowth = 8;
constexpr float kSlowerWorker = 2;

struct CurveFleet {
  int workers = 1;
  bool is_late = true;  // exchanges take longer than the next step
};

/// Fleets whose loss curves are learnt. Their gradients miss 1 to 3, 5, 7, 8, 11, 17 and 23
/// updates. These are close enough to check each other, and late fleets also tell about larger
/// fleets with hidden exchanges.
constexpr CurveFleet kCurveFleets[] = {
    {1, false}, {1}, {2, false}, {2}, {3}, {4, false}, {4}, {6}, {8}};
/// Without overlap there is one condition.
constexpr CurveFleet kWaitingFleets[] = {{1}, {2}, {3}, {4}, {6}, {8}};
/// Larger fleets take longest, and their curves add little to the extrapolation.
constexpr int kRepeatedWorkersMax = 6;
/// Their workers' steps: unequal, since workers that keep step are a special case.
constexpr std::array<double, 8> kSlowness = {1, 1.5, 1.25, 1.75, 1.1, 1.6, 1.35, 1.9};
/// In a late fleet push and pull each take this share of a step, on a link of the worker's own.
/// Both hide behind computation, but a pull arrives too late for the next step, as on a busy
/// network.
constexpr double kExchangeShare = 0.75;
/// Share of the processors that workers of such a fleet compute on; servers take the rest.
constexpr double kComputingShare = 0.8;

/// Enough that no run ends before its time.
constexpr uint32_t kEndlessEpochs = 100000;

/// The job for a while, with this fleet. Its epochs stay: the learning rate follows the whole job,
/// and a stretched warm-up would learn nothing while it is watched.
proto::JobConfig ShortJob(
    const proto::JobConfig& job, std::vector<proto::WorkerGroup> workers, double seconds) {
  proto::JobConfig config = job;
  config.workers = std::move(workers);
  config.faults.clear();
  config.train.evaluate_every_epochs = 0;
  config.train.stop_early = {};
  config.checkpoint.best = {};
  if (config.worker.program.empty()) {
    config.data.test_samples = 1;  // a run that is stopped is evaluated
  }
  config.checkpoint.enabled = false;  // what is measured is the training
  config.run.seconds_max = static_cast<float>(seconds);
  config.run.stop_at_loss = 0;
  config.run.port = 0;
  config.servers.launch = true;
  config.servers.port = 0;
  return config;
}

std::set<int> OtherMinibatches(const proto::JobConfig& job, int usual, int minibatch_max) {
  std::set<int> sizes;
  for (const proto::WorkerGroup& group : job.workers) {
    sizes.insert(static_cast<int>(group.minibatch == 0 ? job.train.minibatch : group.minibatch));
  }
  for (int size = usual * 2; size <= std::min(usual * kMinibatchGrowth, minibatch_max); size *= 2) {
    sizes.insert(size);
  }
  sizes.erase(usual);
  std::erase_if(sizes, [minibatch_max](int size) { return size > minibatch_max; });
  return sizes;
}

/// The job's first worker, with the job's minibatch.
proto::WorkerGroup WorkerOf(const proto::JobConfig& job, const std::string& type) {
  proto::WorkerGroup worker;
  worker.type = type;
  worker.minibatch = job.train.minibatch;
  if (!job.workers.empty()) {
    worker.threads = job.workers.front().threads;
    worker.device = job.workers.front().device;
    worker.slowdown = job.workers.front().slowdown;
    worker.step_ms = job.workers.front().step_ms;
    worker.link_mbit_per_s = job.workers.front().link_mbit_per_s;
  }
  return worker;
}

/// Equal runs differ, because the order of the workers' steps is random. A lone worker's do not.
bool IsWorthRepeating(const CurveFleet& fleet) {
  return fleet.workers > 1 && fleet.workers <= kRepeatedWorkersMax;
}

/// One fleet's run for its loss curve.
ProfileRun CurveRun(
    const proto::JobConfig& job,
    const proto::WorkerGroup& like,
    const CurveFleet& fleet,
    bool is_overlapping,
    const CurveSettings& settings) {
  const int n = fleet.workers;
  // Steps with a length given are meant to let many workers share the machine.
  const double crowd =
      n * static_cast<double>(like.threads) / (kComputingShare * settings.processors);
  const double stretch = like.step_ms > 0 ? 1 : std::max(crowd, 1.0);
  std::vector<proto::WorkerGroup> workers;
  double rate = 0;  // of all together, in steps of one worker alone
  for (int i = 0; i < n; ++i) {
    const double slowness = kSlowness[static_cast<size_t>(i)];
    const double step_s = settings.compute_s * stretch * slowness;
    proto::WorkerGroup worker = like;
    worker.step_ms = static_cast<float>(1000 * step_s);
    worker.link_mbit_per_s = is_overlapping && fleet.is_late
                                 ? MbitPerS(settings.push_bytes / (kExchangeShare * step_s))
                                 : 0;
    workers.push_back(worker);
    rate += 1 / (stretch * slowness);
  }
  ProfileRun run;
  run.label = "losses of " + Plural(static_cast<uint64_t>(n), "worker");
  if (is_overlapping) {
    run.label += fleet.is_late ? ", exchanges late" : ", exchanges hidden";
  }
  run.config = ShortJob(job, std::move(workers), settings.seconds * std::sqrt(n) / rate);
  run.config.servers.link_mbit_per_s = 0;
  run.tells_losses = true;
  return run;
}

}  // namespace

std::vector<ProfileRun> PlanProfileRuns(
    const proto::JobConfig& job, const std::string& type, double seconds, int minibatch_max) {
  const proto::WorkerGroup worker = WorkerOf(job, type);
  std::vector<ProfileRun> runs;
  // A link is known soonest from exchanges that follow each other fast.
  Result<proto::JobConfig> single = WithLocalSteps(ShortJob(job, {worker}, seconds / 2), 1);
  PS_CHECK(single.ok()) << single.status();
  proto::JobConfig waiting = *std::move(single);
  waiting.train.overlap = false;
  waiting.train.epochs = kEndlessEpochs;
  runs.push_back(
      {.label = "1 worker, waiting for its bytes", .config = waiting, .tells_bandwidth = true});
  runs.push_back(
      {.label = "1 worker", .config = ShortJob(job, {worker}, seconds), .tells_fleet = true});
  proto::WorkerGroup two = worker;
  two.count = 2;
  runs.push_back(
      {.label = "2 workers", .config = ShortJob(job, {two}, seconds), .tells_fleet = true});
  proto::WorkerGroup slower = worker;
  slower.slowdown *= kSlowerWorker;
  slower.step_ms *= kSlowerWorker;
  slower.type = type + "-slowed";
  runs.push_back(
      {.label = "2 unequal workers",
       .config = ShortJob(job, {worker, slower}, seconds),
       .tells_fleet = true});
  // A device's memory does not show in the size of the worker's process, and "auto" may be one.
  const bool is_on_cpu = worker.device == "cpu";
  runs[0].tells_memory = is_on_cpu;
  runs[1].tells_memory = is_on_cpu;
  const int usual = static_cast<int>(worker.minibatch);
  for (const int size : OtherMinibatches(job, usual, minibatch_max)) {
    proto::WorkerGroup other = worker;
    other.minibatch = static_cast<uint32_t>(size);
    proto::JobConfig timed = ShortJob(job, {other}, seconds / 2);
    timed.train.epochs = kEndlessEpochs;  // only its step time counts
    runs.push_back(
        {.label = fmt::format("1 worker, minibatch {}", size),
         .config = std::move(timed),
         .tells_memory = is_on_cpu,
         .may_fail = size > usual});
  }
  return runs;
}

std::vector<ProfileRun> PlanCurveRuns(
    const proto::JobConfig& job, const std::string& type, const CurveSettings& settings) {
  const bool is_overlapping = job.train.overlap && job.train.mode == proto::Mode::kAsync;
  const std::span<const CurveFleet> fleets =
      is_overlapping ? std::span<const CurveFleet>(kCurveFleets) : kWaitingFleets;
  std::vector<ProfileRun> runs;
  for (int round = 0; round < settings.repeats; ++round) {
    for (const CurveFleet& fleet : fleets) {
      if (round == 0 || IsWorthRepeating(fleet)) {
        runs.push_back(CurveRun(job, WorkerOf(job, type), fleet, is_overlapping, settings));
      }
    }
  }
  return runs;
}

Result<std::vector<ProfileRun>> PlanPenaltyRuns(
    const proto::JobConfig& job,
    const std::string& type,
    const CurveSettings& settings,
    const std::vector<proto::ExchangeScheme>& schemes) {
  std::vector<ProfileRun> runs;
  for (const proto::ExchangeScheme& scheme : schemes) {
    PS_ASSIGN(const proto::JobConfig changed, WithScheme(job, scheme));
    ProfileRun run = CurveRun(
        changed,
        WorkerOf(job, type),
        {.workers = kPenaltyWorkers, .is_late = false},
        false,
        settings);
    run.label += ", " + proto::SchemeText(scheme, SchemeOf(job));
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<LossAt> LossesBySamples(const proto::JobProfile& told) {
  std::vector<LossAt> curve;
  for (const proto::LossSample& loss : told.losses) {
    curve.push_back({loss.steps * loss.batch_mean, loss.loss});
  }
  return curve;
}

void AddProfileRun(
    const ProfileRun& run, const proto::JobProfile& told, proto::JobProfile* profile) {
  proto::JobProfile part = told;
  part.starts.clear();  // of processes of this machine
  if (!run.tells_bandwidth) {
    part.request_bytes_per_s = 0;
  }
  if (!run.tells_fleet) {
    part.fleets.clear();
  }
  if (run.tells_losses) {
    part.workers.clear();  // their steps may be stretched
  } else {
    part.losses.clear();
  }
  const double overlap = run.tells_fleet ? part.overlap : profile->overlap;
  *profile = MergeProfiles(*profile, part);
  profile->overlap = overlap;
}

}  // namespace ps::provisioner
