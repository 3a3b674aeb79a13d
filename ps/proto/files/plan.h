#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::proto {

// A chosen fleet and its predicted speed, time and cost. configs/plan.fbs is the schema and the
// manual of the file (plan.json), which `psctl plan --json` writes and `psctl train --plan` runs.

enum class Market : unsigned char { kSpot, kOnDemand };

/// How sure it is that no other fleet on offer meets the goal for less, by the models.
enum class Certainty : unsigned char {
  kBestFound,      // of those looked at; others may cost less
  kBoundsChecked,  // all others are excluded, some by bounds that are not proved but checked
  kProven,         // all others are excluded
};

/// What the best fleet is best in: least cost or time to a loss, or most samples/s for a price of
/// an hour.
enum class Objective : unsigned char { kCost, kTime, kThroughputPerHour };

/// `count` equal workers.
struct PlanWorkers {
  std::string instance_type;
  Market market = Market::kSpot;
  int count = 0;
  int minibatch = 0;            // samples of a step
  double compute_s = 0;         // of a step
  double link_bytes_per_s = 0;  // each way
  double usd_per_hour = 0;      // of one
  int held = 0;                 // of them, that ran already and are kept
  std::string zone = {};        // of the spot price, or the servers'

  friend bool operator==(const PlanWorkers&, const PlanWorkers&) = default;
};

struct PlanServers {
  std::string instance_type;
  int count = 1;
  double link_bytes_per_s = 0;  // of one, each way
  double usd_per_hour = 0;
  std::string zone = {};  // empty: not known, or anywhere

  friend bool operator==(const PlanServers&, const PlanServers&) = default;
};

/// Bytes between workers and servers until the target, both ways.
struct PlanTraffic {
  double bytes = 0;
  double bytes_across_zones = 0;
  double usd = 0;  // of the plan's, for those that cross
  double zone_usd_per_gb = 0;
  double egress_usd_per_gb = 0;

  friend bool operator==(const PlanTraffic&, const PlanTraffic&) = default;
};

/// A predicted value, and what it stays above and below: each at the plan's confidence.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;

  friend bool operator==(const Estimate&, const Estimate&) = default;
};

/// Another fleet that reaches the loss.
struct PlanAlternative {
  std::string kind;  // "next best", "on demand", "25 % slower", "the same fleet", ...
  std::vector<PlanWorkers> workers;
  PlanServers servers;
  Estimate samples_per_s;
  Estimate seconds;
  Estimate usd;
  int local_steps = 1;

  friend bool operator==(const PlanAlternative&, const PlanAlternative&) = default;
};

/// What the chosen fleet would do with more of something.
struct PlanGain {
  std::string change;  // "one more g4dn.4xlarge", "twice the servers' network"
  double samples_per_s = 0;
  double seconds = 0;  // to the target; 0 without one, as is usd
  double usd = 0;

  friend bool operator==(const PlanGain&, const PlanGain&) = default;
};

/// A quota that is used up and costs money.
struct PlanQuota {
  std::string instance_type;
  double usd = 0;  // of the best plan with one more allowed

  friend bool operator==(const PlanQuota&, const PlanQuota&) = default;
};

/// What revocations do to a fleet in the mean; 0 where it can't be told.
struct PlanRevocations {
  double revoked = 0;  // machines until the target, each with a successor
  double seconds = 0;
  double usd = 0;
  double revoked_unreplaced = 0;  // the same without successors
  double seconds_unreplaced = 0;
  double usd_unreplaced = 0;
  double lost_unreplaced = 0;  // chance that all are revoked before then
  double start_up_s = 0;       // of a successor's machine
  double revoked_a_day = 0;    // over the next day, whatever the target, as are the two below
  double samples_per_s = 0;
  double usd_per_hour = 0;  // machines that are gone cost nothing
  std::vector<std::string> lifetimes_from;
  std::vector<std::string> unknown;  // spot types without lifetimes, taken to stay

  friend bool operator==(const PlanRevocations&, const PlanRevocations&) = default;
};

/// Spot machines of a type that work at a moment, in the mean.
struct PlanCapacityPoint {
  std::string instance_type;
  std::string zone = {};  // of its trace; empty: wherever
  double at_s = 0;
  double working = 0;

  friend bool operator==(const PlanCapacityPoint&, const PlanCapacityPoint&) = default;
};

/// What a fleet comes to along traces of how many spot machines could be had.
struct PlanCapacity {
  // Empty: the plan's fleet. "without_traces": the one that is chosen without them. "added": the
  // plan's with `spares` more of a further type; "swapped": these for `taken` of `taken_of`.
  // "stands_in": the plan's, with that type in the place of whatever lacks.
  std::string change = {};
  std::vector<PlanWorkers> workers = {};
  std::string spare = {};  // the further type
  std::string zone = {};   // of its trace; empty: wherever
  int spares = 0;
  int taken = 0;
  std::string taken_of = {};
  double in_goal = 0;  // chance to keep time and budget
  double reached = 0;  // share of runs that get to the loss while they are followed
  double seconds = 0;  // mean of these
  double revoked = 0;  // likewise
  double usd = 0;      // mean of all runs, each until its loss or until it is followed no more
  std::vector<PlanCapacityPoint> points = {};

  friend bool operator==(const PlanCapacity&, const PlanCapacity&) = default;
};

/// How those were reckoned.
struct PlanTraces {
  int windows = 0;            // runs along the traces; 0: there are no traces
  double window_s = 0;        // for which each is followed
  bool is_chosen_by = false;  // the plan's fleet is: the cheapest, or soonest, that keeps the goal
  bool is_kept = false;       // at the plan's confidence
  int fleets_seen = 0;        // that came into question
  int fleets_followed = 0;

  friend bool operator==(const PlanTraces&, const PlanTraces&) = default;
};

struct Plan {
  std::string job;
  std::string model_fingerprint;
  std::string training_fingerprint;  // of data, model, optimizer, train; empty: not known
  std::string strategy;              // "exact"
  Objective objective = Objective::kCost;
  std::string speed_model;  // "queue"
  Certainty certainty = Certainty::kBestFound;
  double loss_target = 0;       // 0: no target
  double seconds_max = 0;       // 0: no limit
  double usd_max = 0;           // 0: no limit
  double usd_per_hour_max = 0;  // 0: no limit
  double confidence = 0.9;
  double takeover_s = 0;  // counted in `seconds` when the fleet is not the held one
  double loss_now = 0;    // of the run that goes on with this fleet; 0: it begins
  double steps_done = 0;  // by that run; 0: not told
  double pace = 1;        // steps that it takes, of each that the profile says
  int local_steps = 1;    // minibatches of a worker between two exchanges
  std::string push = {};  // exchange.push of the job; empty: as it is there
  std::string pull = {};
  std::vector<PlanWorkers> workers;
  PlanServers servers;
  Estimate samples_per_s;
  Estimate steps;  // minibatches of all workers together, to the target
  Estimate seconds;
  Estimate usd;
  PlanTraffic traffic = {};
  std::string bottleneck;  // "server network", "worker network", "pcie", "compute", "quota"
  double server_busy = 0;  // share of the servers' bandwidth in use, 0 to 1
  double computing = 0;    // share of the workers' time
  double push_bytes_per_sample = 0;
  double pull_bytes_per_sample = 0;
  std::vector<PlanAlternative> alternatives;
  std::vector<PlanGain> gains;
  std::vector<PlanQuota> quotas;
  PlanRevocations revocations;
  std::vector<PlanCapacity> capacity = {};  // of the fleet, then of others to compare with
  PlanTraces traces = {};
  std::vector<PlanAlternative> if_prices_double;
  std::vector<std::string> notes;  // a line each

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Errors as ParseCatalog's.
Result<Plan> ParsePlan(std::string_view text, const std::string& file);
std::string PrintPlan(const Plan& plan);

}  // namespace ps::proto
