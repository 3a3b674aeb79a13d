#include "run/planning/price_age.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "ps/base/text.h"

namespace ps::run {

using proto::InstanceType;
using proto::SpotPrice;

int DaysBetween(const std::string& from, const std::string& to) {
  const auto day = [](const std::string& date) {
    const auto part = [&](size_t at, size_t digits) {
      unsigned value = 0;
      if (date.size() >= at + digits) {
        std::from_chars(date.data() + at, date.data() + at + digits, value);
      }
      return value;
    };
    return std::chrono::sys_days(
        std::chrono::year(static_cast<int>(part(0, 4))) / std::chrono::month(part(5, 2)) /
        std::chrono::day(part(8, 2)));
  };
  return static_cast<int>((day(to) - day(from)).count());
}

std::string DayOf(int64_t unix_micros) {
  const std::chrono::sys_time<std::chrono::microseconds> time{
      std::chrono::microseconds(unix_micros)};
  const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(time));
  std::string text = fmt::format("{}-", static_cast<int>(day.year()));
  for (const unsigned part :
       {static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day())}) {
    text += (text.size() > 5 ? "-" : "") + std::string(part < 10 ? "0" : "") + std::to_string(part);
  }
  return text;
}

bool IsOutdated(const std::string& as_of, const std::string& today) {
  const int days = DaysBetween(as_of, today);
  return days > kPriceAgeDaysMax || days < 0;
}

const SpotPrice* CheapestSpot(const InstanceType& type) {
  const auto found = std::ranges::min_element(type.spot, {}, &SpotPrice::usd_per_hour);
  return found == type.spot.end() ? nullptr : &*found;
}

namespace {

/// The type's price in the zone; where that has none of its own, the lowest.
const SpotPrice* SpotIn(const InstanceType& type, const std::string& zone) {
  const auto found = std::ranges::find(type.spot, zone, &SpotPrice::zone);
  return found == type.spot.end() ? CheapestSpot(type) : &*found;
}

}  // namespace

std::vector<std::string> PriceNotes(
    const proto::Catalog& catalog, const proto::Plan& plan, const std::string& today) {
  std::vector<std::string> estimated;
  std::vector<std::string> outdated;
  const auto add_day = [&](const std::string& name, const std::string& as_of) {
    if (IsOutdated(as_of, today)) {
      outdated.push_back(Printable(name) + " of " + as_of);
    }
  };
  for (const proto::PlanWorkers& workers : plan.workers) {
    const InstanceType* type = catalog.Find(workers.instance_type);
    const SpotPrice* spot = type == nullptr ? nullptr : SpotIn(*type, workers.zone);
    if (workers.market == proto::Market::kOnDemand || spot == nullptr) {
      add_day(workers.instance_type, catalog.as_of);
      continue;
    }
    add_day(workers.instance_type, spot->as_of);
    if (spot->is_estimate) {
      estimated.push_back(Printable(workers.instance_type));
    }
  }
  add_day(plan.servers.instance_type, catalog.as_of);
  std::vector<std::string> notes;
  if (!estimated.empty()) {
    notes.push_back(
        "estimated prices, worked out from a usual saving, nobody was asked: " + Join(estimated));
  }
  if (!outdated.empty()) {
    notes.push_back("stale prices, look them up before you rely on them: " + Join(outdated));
  }
  return notes;
}

}  // namespace ps::run
