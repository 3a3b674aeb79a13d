#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"

namespace ps::run {

/// Prices older than this are stale.
inline constexpr int kPriceAgeDaysMax = 90;

/// The UTC day of a time: "2026-07-20".
std::string DayOf(int64_t unix_micros);

/// From one day to another; negative when `to` is earlier.
int DaysBetween(const std::string& from, const std::string& to);

/// Whether a price of the day `as_of` is stale, or of a day to come.
bool IsOutdated(const std::string& as_of, const std::string& today);

/// The spot price of the cheapest zone; null: the type has none.
const proto::SpotPrice* CheapestSpot(const proto::InstanceType& type);

/// Warnings about the prices that a plan's cost is made of: estimates, and those that are stale or
/// of a day to come; a line each.
std::vector<std::string> PriceNotes(
    const proto::Catalog& catalog, const proto::Plan& plan, const std::string& today);

}  // namespace ps::run
