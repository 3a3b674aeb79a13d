#include "provisioner/planner/zone_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

#include "provisioner/planner/numbers.h"
#include "provisioner/planner/plan_setup.h"
#include "ps/proto/job/traffic_price.h"

namespace ps::provisioner {
namespace {

constexpr double kBytesPerGb = 1e9;

int ZoneNamed(const std::string& name, PlanProblem* problem) {
  const auto found = std::ranges::find(problem->zones, name);
  if (found != problem->zones.end()) {
    return static_cast<int>(found - problem->zones.begin());
  }
  problem->zones.push_back(name);
  return static_cast<int>(problem->zones.size()) - 1;
}

/// Where the type is sold as spot, as far as one plan may choose.
std::vector<OfferPlace> PlacesOf(
    const proto::Catalog& catalog,
    const proto::InstanceType& type,
    const Offer& offer,
    PlanProblem* problem) {
  const proto::SpotPrice* const lowest = LowestSpot(type);
  std::vector<OfferPlace> places;
  for (const proto::SpotPrice& price : type.spot) {
    const bool is_alike = price.lifetimes == lowest->lifetimes && offer.held == 0;
    if (&price != lowest && !is_alike) {
      continue;
    }
    // A price of the whole region is one of whatever zone the servers are in.
    const int zone = price.zone == catalog.region ? -1 : ZoneNamed(price.zone, problem);
    places.push_back({zone, price.usd_per_hour + type.disk_usd_per_hour});
  }
  return places;
}

/// What an offer costs in the zone itself; infinity where it is not sold.
double UsdIn(const Offer& offer, int zone) {
  double usd = offer.places.empty() ? offer.usd_per_hour : kInfinity;
  for (const OfferPlace& place : offer.places) {
    usd = place.zone < 0 || place.zone == zone ? std::min(usd, place.usd_per_hour) : usd;
  }
  return usd;
}

/// Whether no fleet is cheaper with servers in `other`: everything is sold here for no more, and
/// nothing that comes from elsewhere costs more.
bool IsNeverWorse(const PlanProblem& problem, int zone, int other) {
  for (size_t from = 0; from < problem.zones.size(); ++from) {
    const bool is_between = static_cast<int>(from) == zone || static_cast<int>(from) == other;
    if (!is_between && problem.usd_per_byte[static_cast<size_t>(zone)][from] >
                           problem.usd_per_byte[static_cast<size_t>(other)][from]) {
      return false;
    }
  }
  return std::ranges::all_of(problem.offers, [&](const Offer& offer) {
    return UsdIn(offer, zone) <= UsdIn(offer, other);
  });
}

std::vector<int> BestZones(const PlanProblem& problem) {
  std::vector<int> best;
  for (int zone = 0; zone < static_cast<int>(problem.zones.size()); ++zone) {
    bool is_worse = false;
    for (int other = 0; other < static_cast<int>(problem.zones.size()) && !is_worse; ++other) {
      const bool is_as_good = IsNeverWorse(problem, other, zone);
      is_worse =
          other != zone && is_as_good && (other < zone || !IsNeverWorse(problem, zone, other));
    }
    if (!is_worse) {
      best.push_back(zone);
    }
  }
  return best;
}

/// Between all zones of the problem.
void PriceTraffic(const proto::TrafficPrices& prices, PlanProblem* problem) {
  problem->usd_per_byte.clear();
  for (const std::string& from : problem->zones) {
    std::vector<double>& row = problem->usd_per_byte.emplace_back();
    for (const std::string& to : problem->zones) {
      const bool is_inside = proto::RegionOf(from) == proto::RegionOf(to);
      const double usd_per_gb = is_inside ? prices.zone_usd_per_gb : prices.egress_usd_per_gb;
      row.push_back(from == to ? 0 : usd_per_gb / kBytesPerGb);
    }
  }
}

}  // namespace

void ChooseZones(const proto::Catalog& catalog, PlanProblem* problem) {
  const proto::TrafficPrices& prices = catalog.traffic;
  if (prices.as_of.empty() || problem->bytes_per_step <= 0) {
    return;
  }
  for (Offer& offer : problem->offers) {
    const proto::InstanceType* const type =
        catalog.Find(problem->speed->classes()[static_cast<size_t>(offer.worker_class)].name);
    if (offer.market == proto::Market::kSpot && offer.quota > 0) {
      offer.places = PlacesOf(catalog, *type, offer, problem);
    }
  }
  PriceTraffic(prices, problem);
  const std::vector<int> zones = BestZones(*problem);
  std::vector<ServerOffer> servers;
  for (const ServerOffer& server : problem->servers) {
    for (const int zone : zones) {
      servers.push_back(server);
      servers.back().zone = zone;
    }
  }
  if (!zones.empty()) {
    problem->servers = std::move(servers);
  }
}

void OfferServersIn(
    const proto::Catalog& catalog, const std::vector<std::string>& zones, PlanProblem* problem) {
  if (problem->usd_per_byte.empty()) {
    return;
  }
  std::vector<ServerOffer> anywhere;  // each server once
  for (const ServerOffer& server : problem->servers) {
    if (server.zone == problem->servers.front().zone) {
      anywhere.push_back(server);
    }
  }
  for (const std::string& name : zones) {
    if (name == catalog.region) {
      continue;  // in each zone
    }
    const int zone = ZoneNamed(name, problem);
    if (std::ranges::count(problem->servers, zone, &ServerOffer::zone) > 0) {
      continue;
    }
    for (const ServerOffer& server : anywhere) {
      problem->servers.push_back(server);
      problem->servers.back().zone = zone;
    }
  }
  PriceTraffic(catalog.traffic, problem);
}

std::vector<std::string> TrafficNotes(
    const proto::Catalog& catalog, const PlanProblem& problem, const proto::Plan& plan) {
  std::vector<std::string> notes;
  std::set<std::string> zones;
  for (const proto::PlanWorkers& workers : plan.workers) {
    if (!workers.zone.empty() && workers.zone != catalog.region) {
      zones.insert(workers.zone);
    }
  }
  if (zones.empty()) {
    return notes;
  }
  if (catalog.traffic.as_of.empty() && zones.size() > 1) {
    notes.push_back(
        "what goes from zone to zone counts as free, since the catalog does not say what it costs "
        "(traffic)");
  } else if (
      plan.servers.zone.empty() && problem.bytes_per_step > 0 && !catalog.traffic.as_of.empty()) {
    notes.push_back(
        "the zone of the servers is not known, so traffic between zones is not in the cost");
  }
  return notes;
}

}  // namespace ps::provisioner
