#include "provisioner/profile/profile_merge.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

namespace ps::provisioner {
namespace {

/// Limits of a profile over all runs: the newest of each kind, so that a fleet that trains every
/// day does not displace the figures of others.
constexpr int kSpeedsPerFleet = 10;
/// Limits over all kinds, for profiles with ever new fleets.
constexpr size_t kFleetsMax = 500;
constexpr size_t kLossesMax = 50000;

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
  if (newer.request_bytes_per_s > 0) {
    merged.request_bytes_per_s = newer.request_bytes_per_s;
  }
  for (proto::WorkerProfile worker : newer.workers) {
    const proto::WorkerProfile* same = merged.Find(worker.instance_type, worker.minibatch);
    if (same == nullptr) {
      merged.workers.push_back(worker);
    } else {
      worker.minibatch_max = std::max(same->minibatch_max, worker.minibatch_max);
      merged.workers[static_cast<size_t>(same - merged.workers.data())] = worker;
    }
  }
  merged.fleets.insert(merged.fleets.end(), newer.fleets.begin(), newer.fleets.end());
  merged.losses.insert(merged.losses.end(), newer.losses.begin(), newer.losses.end());
  KeepNewestFleets(&merged.fleets);
  KeepNewestCurves(&merged.losses);
  return merged;
}

}  // namespace ps::provisioner
