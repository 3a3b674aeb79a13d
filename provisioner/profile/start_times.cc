#include "provisioner/profile/start_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <set>
#include <utility>

#include "provisioner/profile/statistics.h"
#include "ps/proto/job/launcher_name.h"

namespace ps::provisioner {
namespace {

constexpr double kHighShare = 0.9;

/// Whether a machine was rented for the process.
bool IsBooted(std::string_view launcher) {
  return launcher == proto::LauncherName(proto::LauncherKind::kEc2) ||
         launcher == proto::LauncherName(proto::LauncherKind::kGce);
}

bool IsQueued(std::string_view launcher) {
  return launcher == proto::LauncherName(proto::LauncherKind::kSlurm) ||
         launcher == proto::LauncherName(proto::LauncherKind::kKubernetes);
}

bool IsLocal(std::string_view launcher) {
  return launcher == proto::LauncherName(proto::LauncherKind::kLocal);
}

}  // namespace

std::map<std::string, StartTimes> StartTimesByType(std::span<const proto::StartSample> starts) {
  std::map<std::string, std::vector<double>> by_type;
  for (const proto::StartSample& start : starts) {
    if (start.step_s > 0) {
      by_type[start.instance_type].push_back(start.step_s);
    }
  }
  std::map<std::string, StartTimes> times;
  for (auto& [type, seconds] : by_type) {
    StartTimes& some = times[type];
    std::ranges::sort(seconds);
    some.count = static_cast<int>(seconds.size());
    const auto rank = static_cast<size_t>(std::ceil(kHighShare * some.count));
    some.high_s = seconds[rank - 1];
    some.median_s = Median(std::move(seconds));
  }
  return times;
}

std::vector<proto::StartSample> StartsFor(
    std::span<const proto::StartSample> starts, std::string_view launcher) {
  std::vector<proto::StartSample> told;
  if (!launcher.empty() && !IsLocal(launcher)) {
    std::ranges::copy_if(starts, std::back_inserter(told), [&](const proto::StartSample& start) {
      return start.launcher == launcher;
    });
    return told;
  }
  std::set<std::string_view> booted;
  for (const proto::StartSample& start : starts) {
    if (IsBooted(start.launcher) && start.step_s > 0) {
      booted.insert(start.instance_type);
    }
  }
  for (const proto::StartSample& start : starts) {
    if (booted.contains(start.instance_type) ? IsBooted(start.launcher)
                                             : IsQueued(start.launcher)) {
      told.push_back(start);
    }
  }
  return told;
}

std::vector<proto::StartSample> StartsElsewhere(std::span<const proto::StartSample> starts) {
  std::vector<proto::StartSample> elsewhere;
  std::ranges::copy_if(starts, std::back_inserter(elsewhere), [](const proto::StartSample& start) {
    return !IsLocal(start.launcher);
  });
  return elsewhere;
}

}  // namespace ps::provisioner
