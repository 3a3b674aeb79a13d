#include "provisioner/profile/profile_merge.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "provisioner/profile/start_times.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

/// Limits of a profile over all runs: the newest of each kind, so that a fleet that trains every
/// day does not displace the figures of others.
constexpr int kSpeedsPerFleet = 10;
/// Limits over all kinds, for profiles with ever new fleets.
constexpr size_t kFleetsMax = 500;
constexpr size_t kLossesMax = 50000;
/// Starts of each type of machine in a zone with each launcher, and of all.
constexpr int kStartsPerKind = 50;
constexpr size_t kStartsMax = 2000;

/// Keeps the newest `per_kind` items of each kind, and `most` of all.
template <typename Item, typename KindOf>
void KeepNewest(int per_kind, size_t most, const KindOf& kind_of, std::vector<Item>* items) {
  std::map<decltype(kind_of(items->front())), int> kept;
  size_t at = items->size();
  std::vector<Item> newest;
  while (at-- > 0 && newest.size() < most) {
    if (++kept[kind_of((*items)[at])] <= per_kind) {
      newest.push_back(std::move((*items)[at]));
    }
  }
  std::ranges::reverse(newest);
  *items = std::move(newest);
}

void KeepNewestFleets(std::vector<proto::FleetSample>* fleets) {
  const auto kind_of = [](const proto::FleetSample& fleet) {
    return std::tuple(fleet.workers, fleet.server_hosts, fleet.server_bytes_per_s);
  };
  KeepNewest(kSpeedsPerFleet, kFleetsMax, kind_of, fleets);
}

void KeepNewestStarts(std::vector<proto::StartSample>* starts) {
  const auto kind_of = [](const proto::StartSample& start) {
    return std::tuple(start.instance_type, start.zone, start.launcher);
  };
  KeepNewest(kStartsPerKind, kStartsMax, kind_of, starts);
}

void KeepNewestCurves(std::vector<proto::LossSample>* losses) {
  using Curve = std::span<const proto::LossSample>;
  std::vector<Curve> curves = SplitCurves(*losses);
  const auto kind_of = [](const Curve& curve) {
    return std::pair(curve.front().workers, curve.front().late >= 0.5);
  };
  KeepNewest(kCurvesPerFleet, curves.size(), kind_of, &curves);
  std::vector<proto::LossSample> newest;
  for (const Curve& curve : curves) {
    newest.insert(newest.end(), curve.begin(), curve.end());
  }
  if (newest.size() > kLossesMax) {
    newest.erase(newest.begin(), newest.end() - static_cast<ptrdiff_t>(kLossesMax));
  }
  *losses = std::move(newest);
}

/// Most steps in the mean of a step's time: machines and programs change.
constexpr int kStepsKept = 10000;
/// Above this share some process waits for a processor, so its times are not its own.
constexpr double kBusyMax = 0.9;
/// Times further apart than this factor aren't of the same machine.
constexpr double kSameStep = 1.25;
constexpr double kWatchedMinS = 3;
/// A loss curve with fewer points is not fitted.
constexpr size_t kCurvePointsMin = 20;

/// The mean of both, weighted by their steps; what is told where they are not of the same thing.
proto::WorkerProfile Pooled(const proto::WorkerProfile& older, const proto::WorkerProfile& told) {
  if (older.excludes_pcie != told.excludes_pcie) {
    return told;
  }
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
      return fmt::format(
          "a step of {} with minibatch {} took {} against {} before; if that is so from "
          "now on: psctl profile",
          Printable(worker.instance_type),
          worker.minibatch,
          StepText(worker),
          StepText(*known));
    }
  }
  const auto is_brief = [](const proto::FleetSample& fleet) {
    return fleet.seconds < kWatchedMinS;
  };
  if (!told.fleets.empty() && std::ranges::all_of(told.fleets, is_brief)) {
    return "watched too briefly";
  }
  return "";
}

void MergePenalties(const std::vector<proto::ExchangePenalty>& newer, proto::JobProfile* profile) {
  std::vector<proto::ExchangePenalty>* const penalties = &profile->penalties;
  for (const proto::ExchangePenalty& penalty : newer) {
    const auto same = std::ranges::find_if(*penalties, [&](const auto& known) {
      return known.mode == penalty.mode && profile->SchemeOf(known) == profile->SchemeOf(penalty);
    });
    if (same == penalties->end()) {
      penalties->push_back(penalty);
    } else {
      *same = penalty;
    }
  }
}

}  // namespace

std::vector<std::span<const proto::LossSample>> SplitCurves(
    std::span<const proto::LossSample> samples) {
  const auto fleet = [](const proto::LossSample& of) {
    return std::tie(of.workers, of.batch_mean, of.heterogeneity, of.late);
  };
  std::vector<std::span<const proto::LossSample>> curves;
  size_t begin = 0;
  for (size_t i = 1; i <= samples.size(); ++i) {
    if (i == samples.size() || fleet(samples[i]) != fleet(samples[i - 1]) ||
        samples[i].steps <= samples[i - 1].steps) {
      curves.push_back(samples.subspan(begin, i - begin));
      begin = i;
    }
  }
  return curves;
}

proto::JobProfile MergeProfiles(const proto::JobProfile& older, const proto::JobProfile& newer) {
  proto::JobProfile merged = older;
  merged.job = newer.job;
  merged.model_fingerprint = newer.model_fingerprint;
  merged.parameter_bytes = newer.parameter_bytes;
  if (!newer.training_fingerprint.empty()) {
    merged.training_fingerprint = newer.training_fingerprint;
  }
  merged.overlap = newer.overlap;
  if (newer.push_bytes > 0) {
    merged.push_bytes = newer.push_bytes;
    merged.pull_bytes = newer.pull_bytes;
  }
  if (newer.server_bytes > 0) {
    merged.server_bytes = newer.server_bytes;
    merged.server_bytes_per_worker = newer.server_bytes_per_worker;
  }
  if (newer.request_bytes_per_s > 0) {
    merged.request_bytes_per_s = newer.request_bytes_per_s;
  }
  for (proto::WorkerProfile worker : newer.workers) {
    const proto::WorkerProfile* same = merged.Find(worker.instance_type, worker.minibatch);
    if (same == nullptr) {
      merged.workers.push_back(worker);
    } else {
      worker.minibatch_max = std::max(same->minibatch_max, worker.minibatch_max);
      if (worker.host_bytes == 0) {
        worker.host_bytes = same->host_bytes;
        worker.device_bytes = same->device_bytes;
      }
      merged.workers[static_cast<size_t>(same - merged.workers.data())] = worker;
    }
  }
  if (merged.fleets.empty() && merged.losses.empty()) {
    merged.local_steps = newer.local_steps;
    merged.push = newer.push;
    merged.pull = newer.pull;
  }
  if (newer.Scheme() == merged.Scheme()) {
    merged.fleets.insert(merged.fleets.end(), newer.fleets.begin(), newer.fleets.end());
    merged.losses.insert(merged.losses.end(), newer.losses.begin(), newer.losses.end());
    MergePenalties(newer.penalties, &merged);
  }
  merged.starts.insert(merged.starts.end(), newer.starts.begin(), newer.starts.end());
  KeepNewestStarts(&merged.starts);
  KeepNewestFleets(&merged.fleets);
  KeepNewestCurves(&merged.losses);
  return merged;
}

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
  part.starts = StartsElsewhere(told.starts);  // no plan is made with others
  if (!part.starts.empty()) {
    refinement.learnt.push_back("the start of " + Plural(part.starts.size(), "worker"));
  }
  return refinement;
}

}  // namespace ps::provisioner
