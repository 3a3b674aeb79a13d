#include "ps/coordinator/fleet/wanted.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace ps::coordinator {
namespace {

constexpr size_t kScaleChangesMax = 256;

uint64_t TotalOf(const std::vector<uint32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

/// `total` in the proportions of `weights`, which are not all 0: what is left over after rounding
/// down goes to the largest remainders, the first of equal ones first.
std::vector<uint32_t> Distribute(uint32_t total, const std::vector<uint32_t>& weights) {
  const uint64_t sum = TotalOf(weights);
  std::vector<uint32_t> shares;
  std::vector<std::pair<uint64_t, size_t>> remainders;
  for (size_t i = 0; i < weights.size(); ++i) {
    const uint64_t scaled = uint64_t{total} * weights[i];
    shares.push_back(static_cast<uint32_t>(scaled / sum));
    remainders.emplace_back(sum - 1 - scaled % sum, i);
  }
  std::sort(remainders.begin(), remainders.end());
  const uint64_t left = total - TotalOf(shares);
  for (uint64_t i = 0; i < left; ++i) {
    ++shares[remainders[i].second];
  }
  return shares;
}

/// "fast, slow"
std::string TypesOf(const std::vector<proto::WorkerGroup>& groups) {
  std::vector<std::string> types;
  for (const proto::WorkerGroup& group : groups) {
    if (std::find(types.begin(), types.end(), group.type) == types.end()) {
      types.push_back(group.type);
    }
  }
  std::string text;
  for (const std::string& type : types) {
    text += (text.empty() ? "" : ", ") + type;
  }
  return text;
}

}  // namespace

bool IsOfWorkers(const proto::ScaleChange& change) {
  return !change.is_servers && change.tensor.empty();
}

Result<std::vector<uint32_t>> WantedAfter(
    const std::vector<proto::WorkerGroup>& groups,
    const std::vector<uint32_t>& before,
    const std::vector<proto::ScaleChange>& changes,
    uint32_t seats_max) {
  if (groups.empty() && std::ranges::any_of(changes, IsOfWorkers)) {
    return Status::InvalidArgument(
        "the job has no groups of workers, so nobody knows what to start; start workers by hand, "
        "or give the job a group with \"count\": 0");
  }
  if (changes.empty() || changes.size() > kScaleChangesMax) {
    return Status::InvalidArgument(fmt::format("allowed: 1 to {} changes", kScaleChangesMax));
  }
  std::vector<uint32_t> wanted = before;
  for (const proto::ScaleChange& change : changes) {
    if (!IsOfWorkers(change)) {
      continue;
    }
    std::vector<size_t> places;
    std::vector<uint32_t> weights;
    int64_t now = 0;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (change.type.empty() || change.type == groups[i].type) {
        places.push_back(i);
        weights.push_back(groups[i].count);
        now += wanted[i];
      }
    }
    if (places.empty()) {
      return Status::NotFound(fmt::format(
          "no group of workers has the type {}; there are: {}", change.type, TypesOf(groups)));
    }
    const int64_t then = (change.is_relative ? now : 0) + change.count;
    if (then < 0 || then > seats_max) {
      return Status::InvalidArgument(fmt::format(
          "that would be {} workers{}; allowed: 0 to {}",
          then,
          change.type.empty() ? "" : " of type " + change.type,
          seats_max));
    }
    if (TotalOf(weights) == 0) {
      weights.assign(weights.size(), 1);
    }
    const std::vector<uint32_t> shares = Distribute(static_cast<uint32_t>(then), weights);
    for (size_t i = 0; i < places.size(); ++i) {
      wanted[places[i]] = shares[i];
    }
  }
  return wanted;
}

}  // namespace ps::coordinator
