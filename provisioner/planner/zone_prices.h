#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "provisioner/planner/planner.h"

namespace ps::provisioner {

// What workers cost beside servers in a zone. Workers that are in another zone pay for each step
// that they make: what it moves crosses zones. So the cheapest place depends on how fast they are.

/// One place of an offer, beside some servers.
struct PlacePrice {
  int place = -1;  // of Offer::places; -1: it has none
  double usd_per_s = 0;
  double usd_per_step = 0;  // what a minibatch of a worker pays for traffic
};

/// All places that may be the cheapest. The problem need not outlive it.
class ZonePrices {
 public:
  explicit ZonePrices(const PlanProblem& problem);

  /// By rent, the least first; from one to the next a step costs less. Never empty.
  std::span<const PlacePrice> Of(int server_offer, size_t offer) const {
    return prices_[static_cast<size_t>(server_offer) * offers_ + offer];
  }

  /// Whether some worker pays for its steps beside these servers, or may.
  bool HasTraffic(int server_offer) const {
    return has_traffic_[static_cast<size_t>(server_offer)];
  }

  /// No worker of `b` is ever cheaper than one of `a`, of the same class, beside these servers.
  bool IsNeverDearer(int server_offer, size_t a, size_t b) const;

 private:
  size_t offers_ = 0;
  std::vector<std::vector<PlacePrice>> prices_;  // by server offer, then by offer
  std::vector<bool> has_traffic_;
};

/// Where the workers of an offer are in a fleet, and what they cost there.
struct WorkerTerms {
  double usd_per_hour = 0;
  double usd_per_step = 0;
  std::string zone;  // empty: not known
};

WorkerTerms TermsOf(const PlanProblem& problem, const FleetChoice& choice, size_t offer);

/// What goes between workers and servers until the loss.
struct FleetTraffic {
  double bytes = 0;
  double bytes_across = 0;  // from zone to zone; 0 too where zones are not known
};

FleetTraffic TrafficOf(const PlanProblem& problem, const FleetChoice& choice);

}  // namespace ps::provisioner
