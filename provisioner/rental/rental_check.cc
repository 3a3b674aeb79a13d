#include "provisioner/rental/rental_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "provisioner/rental/rent_settings.h"

namespace ps::provisioner {
namespace {

/// Whether nothing can be rented of the pools that the line is about.
bool IsReason(const CheckLine& line) {
  switch (line.end.fault) {
    case CallFault::kCredentials:
    case CallFault::kRefused:
    case CallFault::kQuota:
      return true;
    case CallFault::kDenied:
      // Who may not look, at a quota for example, may rent all the same.
      return line.what.starts_with("permission ");
    default:
      return false;
  }
}

bool IsAbout(const CheckLine& line, const Pool& pool) {
  return line.pools.empty() || std::ranges::find(line.pools, pool) != line.pools.end();
}

/// How many machines of these pools there is room for at most; nothing: it is not told.
std::optional<uint64_t> RoomOf(
    const std::vector<Pool>& pools, const std::vector<CheckLine>& lines) {
  std::set<const CheckLine*> limits;
  for (const Pool& pool : pools) {
    const CheckLine* least = nullptr;
    bool is_open = true;
    for (const CheckLine& line : lines) {
      if (!IsAbout(line, pool)) {
        continue;
      }
      is_open = is_open && (line.pools.empty() || !IsReason(line));
      if (line.room && (least == nullptr || *line.room < *least->room)) {
        least = &line;
      }
    }
    if (is_open && least == nullptr) {
      return std::nullopt;
    }
    if (is_open) {
      limits.insert(least);
    }
  }
  uint64_t room = 0;
  for (const CheckLine* const line : limits) {
    room += *line->room;
  }
  return room;
}

}  // namespace

std::vector<MachineDemand> DemandsOf(const proto::JobConfig& config) {
  std::vector<MachineDemand> demands;
  for (const proto::WorkerGroup& group : config.workers) {
    demands.push_back({PoolsOf(config.launch.rent, group), group.count});
  }
  return demands;
}

std::optional<CheckLine> CheckRoom(
    const std::vector<CheckLine>& lines, const std::vector<MachineDemand>& demands) {
  MachineDemand all;
  for (const MachineDemand& demand : demands) {
    all.pools.insert(all.pools.end(), demand.pools.begin(), demand.pools.end());
    all.count += demand.count;
  }
  std::vector<MachineDemand> looked_at = demands;
  looked_at.push_back(all);
  CheckLine line;
  line.what = fmt::format("quotas for {} machines", all.count);
  bool is_told = false;
  for (const MachineDemand& demand : looked_at) {
    const std::optional<uint64_t> room = RoomOf(demand.pools, lines);
    is_told = is_told || room;
    if (room && *room < demand.count && line.end.ok()) {
      line.end.fault = CallFault::kQuota;
      line.end.message = fmt::format(
          "the job wants {} machines of {}{}, and there is room for {}",
          demand.count,
          PoolText(demand.pools.front()),
          demand.pools.size() > 1 ? " and other pools" : "",
          *room);
    }
  }
  line.finding = "there is room for all";
  return is_told ? std::optional(line) : std::nullopt;
}

Result<std::string> CheckRental(
    Provider* provider, const RentRequest& request, const std::vector<MachineDemand>& demands) {
  std::set<Pool> open(request.pools.begin(), request.pools.end());
  std::string reasons;
  const auto add = [&](const CheckLine& line) {
    reasons += (reasons.empty() ? "" : "; ") + line.what + ": " + line.end.message;
  };
  const std::vector<CheckLine> lines = provider->Check(request);
  for (const CheckLine& line : lines) {
    if (line.what == "credentials" && line.end.fault == CallFault::kUnclear) {
      return Status::Unavailable(fmt::format(
          "nothing was started, since the provider does not answer: {}; look at launch.rent.region "
          "and at the network",
          line.end.message));
    }
    if (IsReason(line)) {
      add(line);
      std::erase_if(open, [&](const Pool& pool) { return IsAbout(line, pool); });
    }
  }
  if (open.empty()) {
    return Status::InvalidArgument("no machine can be rented: " + reasons);
  }
  if (const std::optional<CheckLine> room = CheckRoom(lines, demands); room && !room->end.ok()) {
    add(*room);
  }
  return reasons;
}

}  // namespace ps::provisioner
