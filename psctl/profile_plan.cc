#include "psctl/profile_plan.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "provisioner/job_models.h"
#include "psctl/run_profile.h"
#include "psctl/tables.h"
#include "psctl/text.h"

namespace ps::psctl {
namespace {

/// How much larger than the job's own the minibatches grow that are tried.
constexpr int kMinibatchGrowth = 8;
constexpr float kSlowerWorker = 2;

/// So many that no run ends before its time.
constexpr uint32_t kEndlessEpochs = 100000;

/// The job for a while, with this fleet. Its epochs stay: the learning rate follows the whole job,
/// and a stretched warm-up would learn nothing while it is watched.
proto::JobConfig ShortJob(
    const proto::JobConfig& job, std::vector<proto::WorkerGroup> workers, double seconds) {
  proto::JobConfig config = job;
  config.workers = std::move(workers);
  config.faults.clear();
  config.train.evaluate_every_epochs = 0;
  config.run.seconds_max = static_cast<float>(seconds);
  config.run.stop_at_loss = 0;
  config.run.port = 0;
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

std::string Percent(double residual) {
  return "+-" + FormatPercent(residual);
}

}  // namespace

std::vector<ProfileRun> PlanProfileRuns(
    const proto::JobConfig& job, const std::string& type, double seconds, int minibatch_max) {
  proto::WorkerGroup worker;
  worker.type = type;
  worker.minibatch = job.train.minibatch;
  if (!job.workers.empty()) {
    worker.threads = job.workers.front().threads;
    worker.slowdown = job.workers.front().slowdown;
    worker.step_ms = job.workers.front().step_ms;
    worker.link_mbit_per_s = job.workers.front().link_mbit_per_s;
  }
  std::vector<ProfileRun> runs;
  proto::JobConfig waiting = ShortJob(job, {worker}, seconds / 2);
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
  const int usual = static_cast<int>(worker.minibatch);
  for (const int size : OtherMinibatches(job, usual, minibatch_max)) {
    proto::WorkerGroup other = worker;
    other.minibatch = static_cast<uint32_t>(size);
    proto::JobConfig timed = ShortJob(job, {other}, seconds / 2);
    timed.train.epochs = kEndlessEpochs;  // only its step time counts
    runs.push_back(
        {.label = "1 worker, minibatch " + std::to_string(size), .config = std::move(timed)});
  }
  return runs;
}

void AddProfileRun(
    const ProfileRun& run, const proto::JobProfile& told, proto::JobProfile* profile) {
  proto::JobProfile part = told;
  if (!run.tells_bandwidth) {
    part.request_bytes_per_s = 0;
  }
  if (!run.tells_fleet) {
    part.fleets.clear();
    part.losses.clear();
  }
  const double overlap = run.tells_fleet ? part.overlap : profile->overlap;
  *profile = MergeProfiles(*profile, part);
  profile->overlap = overlap;
}

std::vector<std::string> FitProfile(proto::JobProfile* profile) {
  provisioner::FitJob job;
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
  job.traffic = provisioner::TrafficOf(*profile);
  // A worker alone never works with parameters that others have changed meanwhile: its curve is not
  // that of a small fleet.
  const std::vector<proto::LossSample> losses = profile->losses;
  const auto is_alone = [](const proto::LossSample& loss) { return loss.workers < 2; };
  if (!std::ranges::all_of(losses, is_alone)) {
    std::erase_if(profile->losses, is_alone);
  }
  std::vector<std::string> missing = provisioner::RefitProfile(job, profile);
  profile->losses = losses;
  return missing;
}

std::string RenderProfile(const proto::JobProfile& profile) {
  const auto bytes = [](double n) { return FormatBytes(static_cast<uint64_t>(std::llround(n))); };
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"job", Printable(profile.job) + ", model " + Printable(profile.model_fingerprint)},
      {"parameters", bytes(profile.parameter_bytes)},
      {"a step moves",
       bytes(profile.push_bytes) + " to the servers, " + bytes(profile.pull_bytes) + " back"},
      {"a worker alone takes", bytes(profile.request_bytes_per_s) + "/s each way"}};
  if (profile.queue.samples > 0) {
    pairs.emplace_back(
        "queue model",
        Percent(profile.queue.residual) + " over " +
            Plural(static_cast<uint64_t>(profile.queue.samples), "fleet"));
  }
  if (profile.loss.samples > 0) {
    pairs.emplace_back(
        "loss model",
        Percent(profile.loss.residual) + " of the steps over " +
            Plural(static_cast<uint64_t>(profile.loss.samples), "point"));
  }
  Table table(
      {{"type", Align::kLeft},
       {"minibatch"},
       {"step ms"},
       {"+-"},
       {"samples/s"},
       {"steps"},
       {"largest minibatch"}});
  for (const proto::WorkerProfile& worker : profile.workers) {
    table.AddRow(
        {Printable(worker.instance_type),
         std::to_string(worker.minibatch),
         FormatFixed(1000 * worker.compute_s, 2),
         FormatFixed(1000 * worker.compute_stddev_s, 2),
         FormatRate(worker.minibatch / worker.compute_s),
         FormatCount(static_cast<uint64_t>(worker.steps_measured)),
         worker.minibatch_max > 0 ? FormatCount(static_cast<uint64_t>(worker.minibatch_max))
                                  : "?"});
  }
  return RenderPairs(pairs) + "\n" + table.Render();
}

}  // namespace ps::psctl
