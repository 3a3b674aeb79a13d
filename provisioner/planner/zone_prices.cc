#include "provisioner/planner/zone_prices.h"

#include <algorithm>
#include <tuple>

#include "provisioner/planner/numbers.h"

namespace ps::provisioner {
namespace {

/// What a minibatch pays between such servers and a place.
double UsdPerStep(const PlanProblem& problem, const ServerOffer& server, const OfferPlace& place) {
  if (place.zone < 0 || server.zone < 0 || problem.usd_per_byte.empty()) {
    return 0;
  }
  return problem.bytes_per_step *
         problem.usd_per_byte[static_cast<size_t>(server.zone)][static_cast<size_t>(place.zone)];
}

std::vector<PlacePrice> PricesOf(
    const PlanProblem& problem, const ServerOffer& server, const Offer& offer) {
  if (offer.places.empty()) {
    return {{-1, offer.usd_per_hour / kSecondsPerHour, 0}};
  }
  std::vector<PlacePrice> all;
  for (size_t i = 0; i < offer.places.size(); ++i) {
    all.push_back(
        {static_cast<int>(i),
         offer.places[i].usd_per_hour / kSecondsPerHour,
         UsdPerStep(problem, server, offer.places[i])});
  }
  std::ranges::sort(all, {}, [](const PlacePrice& price) {
    return std::tuple(price.usd_per_s, price.usd_per_step, price.place);
  });
  std::vector<PlacePrice> some;
  for (const PlacePrice& price : all) {
    if (some.empty() || price.usd_per_step < some.back().usd_per_step) {
      some.push_back(price);
    }
  }
  return some;
}

}  // namespace

ZonePrices::ZonePrices(const PlanProblem& problem) : offers_(problem.offers.size()) {
  for (const ServerOffer& server : problem.servers) {
    bool has_traffic = false;
    for (const Offer& offer : problem.offers) {
      prices_.push_back(PricesOf(problem, server, offer));
      has_traffic = has_traffic || prices_.back().front().usd_per_step > 0;
    }
    has_traffic_.push_back(has_traffic);
  }
}

bool ZonePrices::IsNeverDearer(int server_offer, size_t a, size_t b) const {
  const PlacePrice& least = Of(server_offer, b).front();
  return std::ranges::any_of(Of(server_offer, a), [&](const PlacePrice& price) {
    return price.usd_per_s <= least.usd_per_s &&
           price.usd_per_step <= Of(server_offer, b).back().usd_per_step;
  });
}

WorkerTerms TermsOf(const PlanProblem& problem, const FleetChoice& choice, size_t offer) {
  const Offer& some = problem.offers[offer];
  const ServerOffer& server = problem.servers[static_cast<size_t>(choice.server_offer)];
  const auto name = [&](int zone) {
    return zone < 0 ? some.zone : problem.zones[static_cast<size_t>(zone)];
  };
  if (some.places.empty()) {
    return {some.usd_per_hour, 0, name(some.zone.empty() ? server.zone : -1)};
  }
  size_t place = 0;
  if (offer < choice.places.size() && choice.places[offer] >= 0) {
    place = static_cast<size_t>(choice.places[offer]);
  } else {
    place = static_cast<size_t>(PricesOf(problem, server, some).front().place);
  }
  const OfferPlace& chosen = some.places[place];
  return {
      chosen.usd_per_hour,
      UsdPerStep(problem, server, chosen),
      name(chosen.zone < 0 ? server.zone : chosen.zone)};
}

FleetTraffic TrafficOf(const PlanProblem& problem, const FleetChoice& choice) {
  FleetTraffic traffic;
  traffic.bytes = choice.steps * problem.bytes_per_step;
  const int server_zone = problem.servers[static_cast<size_t>(choice.server_offer)].zone;
  if (server_zone < 0) {
    return traffic;
  }
  std::vector<int> counts(problem.speed->classes().size(), 0);
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    counts[static_cast<size_t>(problem.offers[i].worker_class)] += choice.counts[i];
  }
  const ServerOffer& server = problem.servers[static_cast<size_t>(choice.server_offer)];
  const std::vector<double> step_s =
      problem.speed->StepSeconds(counts, {choice.server_hosts, server.link_bytes_per_s});
  double all = 0;
  double across = 0;
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    if (choice.counts[i] == 0) {
      continue;
    }
    const double rate =
        choice.counts[i] / step_s[static_cast<size_t>(problem.offers[i].worker_class)];
    const bool may_cross = !problem.offers[i].places.empty();
    all += rate;
    across += may_cross && TermsOf(problem, choice, i).zone !=
                               problem.zones[static_cast<size_t>(server_zone)]
                  ? rate
                  : 0;
  }
  traffic.bytes_across = all > 0 ? traffic.bytes * across / all : 0;
  return traffic;
}

}  // namespace ps::provisioner
