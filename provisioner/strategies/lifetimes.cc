#include "provisioner/strategies/lifetimes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace ps::provisioner {
namespace {

constexpr double kRowHours[] = {1, 2, 6, 12, 24};

/// CM-DARE, data of its Fig. 8: share revoked by the hours above.
struct RegionRow {
  const char* name;
  double revoked[5];
};

constexpr RegionRow kRegions[] = {
    {"K80@us-west1", {.042, .042, .167, .188, .229}},
    {"K80@us-east1", {.467, .467, .467, .467, .467}},
    {"K80@us-central1", {.104, .104, .167, .271, .562}},
    {"K80@europe-west1", {.400, .400, .467, .533, .667}},
    {"P100@europe-west1", {.000, .067, .167, .233, .267}},
    {"P100@us-east1", {.200, .400, .633, .667, .700}},
    {"P100@us-central1", {.267, .333, .333, .467, .533}},
    {"P100@us-west1", {.167, .300, .433, .533, .667}},
    {"V100@europe-west4", {.067, .167, .200, .233, .433}},
    {"V100@asia-east1", {.233, .300, .467, .467, .467}},
    {"V100@us-central1", {.667, .667, .667, .667, .667}},
    {"V100@us-west1", {.300, .500, .733, .733, .733}}};

/// The same of all regions, revoked in each hour of the day.
struct DeviceRow {
  const char* device;
  int machines;
  int revoked[24];
};

constexpr DeviceRow kDevices[] = {
    {"K80", 156, {33, 0, 9, 1, 0, 1, 6, 0, 1, 0, 0, 1, 2, 1, 1, 10, 0, 0, 0, 0, 2, 0, 0, 4}},
    {"P100", 120, {19, 14, 9, 0, 5, 0, 4, 2, 0, 2, 2, 0, 0, 0, 5, 1, 0, 0, 0, 1, 0, 0, 0, 1}},
    {"V100", 120, {38, 11, 3, 8, 0, 2, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}}};

/// By "DEVICE" and "DEVICE@REGION".
const std::map<std::string, LifetimeLaw>& PublishedLaws() {
  static const std::map<std::string, LifetimeLaw> laws = [] {
    std::map<std::string, LifetimeLaw> made;
    for (const RegionRow& row : kRegions) {
      std::vector<LifetimePoint> points;
      for (size_t i = 0; i < 5; ++i) {
        points.push_back({kRowHours[i], row.revoked[i]});
      }
      made.emplace(row.name, LifetimeLaw::FromPoints(std::move(points)).value());
    }
    for (const DeviceRow& row : kDevices) {
      std::vector<LifetimePoint> points;
      int revoked = 0;
      for (int hour = 0; hour < 24; ++hour) {
        revoked += row.revoked[hour];
        points.push_back({hour + 1.0, static_cast<double>(revoked) / row.machines});
      }
      made.emplace(row.device, LifetimeLaw::FromPoints(std::move(points)).value());
    }
    return made;
  }();
  return laws;
}

}  // namespace

LifetimeLaw::LifetimeLaw(std::vector<LifetimePoint> points) : points_(std::move(points)) {
  points_.insert(points_.begin(), LifetimePoint{});
  for (size_t i = points_.size() - 1; i > 0; --i) {
    const LifetimePoint& from = points_[i - 1];
    const LifetimePoint& to = points_[i];
    if (to.revoked > from.revoked) {
      // Where nobody survives, half of the last interval's machines set the rate.
      const double left = std::max(1 - to.revoked, (1 - from.revoked) / 2);
      hazard_after_ = std::log((1 - from.revoked) / left) / (to.hours - from.hours);
      return;
    }
  }
}

Result<LifetimeLaw> LifetimeLaw::FromPoints(std::vector<LifetimePoint> points) {
  if (points.empty() || points.size() > kPointsMax) {
    return Status::InvalidArgument(
        fmt::format("{} points of a lifetime law; 1 to {} are taken", points.size(), kPointsMax));
  }
  LifetimePoint last;
  for (size_t i = 0; i < points.size(); ++i) {
    const LifetimePoint& point = points[i];
    if (!(point.hours > last.hours && std::isfinite(point.hours))) {
      return Status::InvalidArgument(
          fmt::format("point {}: {} hours; hours ascend from above 0", i, point.hours));
    }
    if (!(point.revoked >= last.revoked && point.revoked <= 1)) {
      return Status::InvalidArgument(
          fmt::format("point {}: a share of {}; shares grow within 0 and 1", i, point.revoked));
    }
    last = point;
  }
  return LifetimeLaw(std::move(points));
}

Result<LifetimeLaw> LifetimeLaw::FromObserved(std::vector<ObservedLife> lives) {
  std::ranges::sort(lives, {}, &ObservedLife::hours);
  if (!lives.empty() && !(lives.front().hours > 0 && std::isfinite(lives.back().hours))) {
    return Status::InvalidArgument("the time for which a machine was seen must be above 0 h");
  }
  std::vector<LifetimePoint> points;
  double survival = 1;
  for (size_t i = 0; i < lives.size();) {
    size_t end = i;
    double revoked = 0;
    for (; end < lives.size() && lives[end].hours == lives[i].hours; ++end) {
      revoked += lives[end].is_revoked ? 1 : 0;
    }
    survival *= 1 - revoked / static_cast<double>(lives.size() - i);
    if (revoked > 0) {
      points.push_back({lives[i].hours, 1 - survival});
    }
    i = end;
  }
  if (points.empty()) {
    return Status::InvalidArgument("no machine was revoked, so lifetimes can't be estimated");
  }
  if (lives.back().hours > points.back().hours) {
    points.push_back({lives.back().hours, points.back().revoked});
  }
  return FromPoints(std::move(points));
}

double LifetimeLaw::SurvivalAt(double hours) const {
  if (hours <= 0) {
    return 1;
  }
  const auto next = std::ranges::upper_bound(points_, hours, {}, &LifetimePoint::hours);
  if (next == points_.end()) {
    const LifetimePoint& last = points_.back();
    return (1 - last.revoked) * std::exp(-hazard_after_ * (hours - last.hours));
  }
  const LifetimePoint& from = *std::prev(next);
  const double share = (hours - from.hours) / (next->hours - from.hours);
  return 1 - (from.revoked + share * (next->revoked - from.revoked));
}

double LifetimeLaw::RevokedWithin(double age_hours, double hours) const {
  const double now = SurvivalAt(age_hours);
  return now > 0 ? 1 - SurvivalAt(age_hours + hours) / now : 1;
}

double LifetimeLaw::MeanUpHours(double age_hours, double hours) const {
  const double now = SurvivalAt(age_hours);
  if (now <= 0) {
    return 0;
  }
  constexpr int kCells = 2000;
  double sum = 0;
  for (int i = 0; i < kCells; ++i) {
    sum += SurvivalAt(age_hours + (i + 0.5) * hours / kCells);
  }
  return sum / now * hours / kCells;
}

const LifetimeLaw* PublishedLifetimes(const std::string& device, const std::string& region) {
  const auto found = PublishedLaws().find(region.empty() ? device : device + "@" + region);
  return found == PublishedLaws().end() ? nullptr : &found->second;
}

std::vector<std::string> PublishedLifetimeNames() {
  std::vector<std::string> names;
  for (const auto& [name, law] : PublishedLaws()) {
    names.push_back(name);
  }
  return names;
}

}  // namespace ps::provisioner
