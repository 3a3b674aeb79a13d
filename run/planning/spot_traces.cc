#include "run/planning/spot_traces.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/zone_choice.h"
#include "provisioner/report/outlook.h"
#include "ps/base/text.h"
#include "run/planning/planning.h"

namespace ps::run {
namespace {

using provisioner::Offer;
using provisioner::PlanProblem;

/// Whether `zone` is the region or a zone of it: us-east-1a of us-east-1, but not zone-10 of
/// zone-1.
bool IsZoneOf(const std::string& zone, const std::string& region) {
  if (!zone.starts_with(region) || region.empty() || zone.size() == region.size()) {
    return zone.starts_with(region);
  }
  const char next = zone[region.size()];
  const bool is_letter = next >= 'a' && next <= 'z';
  const bool ends_in_digit = region.back() >= '0' && region.back() <= '9';
  return next == '-' || (is_letter && ends_in_digit);
}

/// Whether one is the other, or a zone of it.
bool IsWithin(const std::string& zone, const std::string& other) {
  return IsZoneOf(zone, other) || IsZoneOf(other, zone);
}

std::string JoinPrintable(const std::vector<std::string>& names) {
  std::vector<std::string> printable;
  for (const std::string& name : names) {
    printable.push_back(Printable(name));
  }
  return Join(printable);
}

bool IsSpotOf(const PlanProblem& problem, const Offer& offer, const std::string& type) {
  const auto k = static_cast<size_t>(offer.worker_class);
  return offer.market == proto::Market::kSpot && problem.speed->classes()[k].name == type;
}

/// The zones that traces of each type name.
std::map<std::string, std::vector<std::string>> ZonesByType(const std::vector<SpotTrace>& traces) {
  std::map<std::string, std::vector<std::string>> zones;
  for (const SpotTrace& trace : traces) {
    if (!trace.zone.empty()) {
      zones[trace.type].push_back(trace.zone);
    }
  }
  return zones;
}

/// The type's price in the zone, or that of the whole region. Errors: kInvalidArgument.
Result<proto::SpotPrice> PriceIn(
    const proto::Catalog& catalog, const proto::InstanceType& type, const std::string& zone) {
  const proto::SpotPrice* of_region = nullptr;
  std::set<std::string> zones;
  for (const proto::SpotPrice& price : type.spot) {
    if (price.zone == zone) {
      return price;
    }
    zones.insert(price.zone);
    const bool is_of_it = price.zone == catalog.region && IsZoneOf(zone, catalog.region);
    of_region = is_of_it ? &price : of_region;
  }
  if (of_region == nullptr) {
    return Status::InvalidArgument(fmt::format(
        "--capacity {}@{}: the catalog has no spot price of it there{}",
        Printable(type.name),
        Printable(zone),
        zones.empty() ? std::string(" or elsewhere")
                      : ", but in " + JoinPrintable({zones.begin(), zones.end()})));
  }
  proto::SpotPrice price = *of_region;
  price.zone = zone;
  return price;
}

/// The one spot offer of a type that zones are told apart of. Errors: kInvalidArgument.
Result<size_t> OnlyOfferOf(const PlanProblem& problem, const std::string& type) {
  std::vector<size_t> found;
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    if (IsSpotOf(problem, problem.offers[i], type)) {
      found.push_back(i);
    }
  }
  if (found.empty()) {
    return problem.offers.size();
  }
  const char* why = nullptr;
  if (found.size() > 1) {
    why = "it has several minibatches in the profile";
  } else if (problem.offers[found.front()].pool >= 0) {
    why = "it may hold parameters as well: name the servers by --servers";
  } else if (provisioner::RunningOf(problem, found.front()) > 0) {
    why = "some of it run already, and nobody says in which zone";
  }
  return why == nullptr ? Result<size_t>(found.front())
                        : Status::InvalidArgument(fmt::format(
                              "--capacity can't tell the zones of {} apart: {}; give one trace "
                              "of the type",
                              Printable(type),
                              why));
}

/// The offer in one of its zones, for that zone's price.
Offer OfferIn(
    const PlanProblem& problem,
    const proto::Catalog& catalog,
    const Offer& offer,
    const std::string& type,
    const std::string& zone) {
  Offer one = offer;
  one.zone = zone;
  const proto::InstanceType& known = *catalog.Find(type);
  const auto price = std::ranges::find(known.spot, zone, &proto::SpotPrice::zone);
  one.usd_per_hour = price->usd_per_hour + known.disk_usd_per_hour;
  one.places.clear();
  const auto index = std::ranges::find(problem.zones, zone);
  if (!problem.usd_per_byte.empty() && index != problem.zones.end()) {
    one.places.push_back({static_cast<int>(index - problem.zones.begin()), one.usd_per_hour});
  }
  return one;
}

}  // namespace

std::string NameOf(const SpotTrace& trace) {
  return Printable(trace.type) + (trace.zone.empty() ? "" : " in " + Printable(trace.zone));
}

Status CheckSpotTraces(const std::vector<SpotTrace>& traces) {
  for (size_t i = 0; i < traces.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const SpotTrace& a = traces[j];
      const SpotTrace& b = traces[i];
      if (a.type != b.type || !IsWithin(a.zone, b.zone)) {
        continue;
      }
      return Status::InvalidArgument(
          a.zone == b.zone
              ? fmt::format("--capacity names {} twice", NameOf(a))
              : fmt::format(
                    "--capacity names {} and {}: machines of the one are among those of the other; "
                    "give one trace of the type, or one of each zone",
                    NameOf(a),
                    NameOf(b)));
    }
  }
  return Status::Ok();
}

Status NarrowToTracedZones(
    const std::vector<SpotTrace>& traces,
    proto::Catalog* catalog,
    std::vector<std::string>* notes) {
  for (const auto& [name, zones] : ZonesByType(traces)) {
    const auto type = std::ranges::find(catalog->types, name, &proto::InstanceType::name);
    if (type == catalog->types.end()) {
      return Status::InvalidArgument(
          fmt::format("--capacity: the catalog has no type {}", Printable(name)));
    }
    std::vector<proto::SpotPrice> prices;
    for (const std::string& zone : zones) {
      PS_ASSIGN(proto::SpotPrice price, PriceIn(*catalog, *type, zone));
      prices.push_back(std::move(price));
    }
    type->spot = std::move(prices);
    notes->push_back(fmt::format(
        "{} is taken in the zones that --capacity names alone: {}",
        Printable(name),
        JoinPrintable(zones)));
  }
  return Status::Ok();
}

Result<std::vector<ZonedType>> SplitByZones(
    const std::vector<SpotTrace>& traces, const proto::Catalog& catalog, PlanProblem* problem) {
  std::vector<ZonedType> zoned;
  for (const auto& [type, zones] : ZonesByType(traces)) {
    PS_ASSIGN(const size_t at, OnlyOfferOf(*problem, type));
    if (at == problem->offers.size()) {
      continue;  // MakeSpotCapacity says so
    }
    provisioner::OfferServersIn(catalog, zones, problem);
    const Offer whole = problem->offers[at];
    ZonedType some = {{}, whole.quota};
    for (const std::string& zone : zones) {
      Offer one = OfferIn(*problem, catalog, whole, type, zone);
      if (some.offers.empty()) {
        some.offers.push_back(at);
        problem->offers[at] = std::move(one);
        continue;
      }
      some.offers.push_back(problem->offers.size());
      problem->offers.push_back(std::move(one));
      if (!problem->runs.empty()) {
        problem->runs.push_back(0);
      }
    }
    zoned.push_back(std::move(some));
  }
  return zoned;
}

Result<std::unique_ptr<SpotCapacity>> MakeSpotCapacity(const Planning& planning, double limit_s) {
  const PlanProblem& problem = planning.problem;
  std::vector<SpotPool> pools;
  for (const SpotTrace& trace : planning.spot_traces) {
    SpotPool pool = {{}, trace.steps, trace.end_s};
    for (size_t i = 0; i < problem.offers.size(); ++i) {
      const Offer& offer = problem.offers[i];
      if (IsSpotOf(problem, offer, trace.type) &&
          (trace.zone.empty() || offer.zone == trace.zone)) {
        pool.offers.push_back(i);
      }
    }
    if (pool.offers.empty()) {
      return Status::InvalidArgument(fmt::format(
          "--capacity is of spot machines of {}, which are not on offer: the profile has no "
          "figures of it, the catalog no spot price, its memory is too small, or --types leaves it "
          "out",
          NameOf(trace)));
    }
    if (trace.end_s < limit_s) {
      return Status::InvalidArgument(fmt::format(
          "--capacity: the trace of {} is of {}, and a run may take {}: give a longer one, as "
          "nothing is assumed of the time after it",
          NameOf(trace),
          FormatDuration(trace.end_s),
          FormatDuration(limit_s)));
    }
    pools.push_back(std::move(pool));
  }
  PS_ASSIGN(
      const provisioner::CatalogLives known,
      provisioner::LivesOf(planning.catalog, problem, planning.outlook));
  PoolTimes times = {{}, planning.outlook.detect_s};
  for (const provisioner::OfferLife& life : known.lives.offers) {
    times.start_s.push_back(life.start_up_s);
  }
  return std::make_unique<SpotCapacity>(problem, std::move(pools), std::move(times), limit_s);
}

}  // namespace ps::run
