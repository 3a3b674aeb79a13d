#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "provisioner/model/performance_model.h"
#include "provisioner/model/prediction_interval.h"
#include "provisioner/planner/server_memory.h"
#include "ps/base/status.h"
#include "ps/proto/files/plan.h"

namespace ps::provisioner {

// Chooses a fleet. Pure: no clock, no network; same input, same plan.

/// A quota that several offers share: the minibatches of one type, and its use as a server.
struct QuotaPool {
  int quota = 0;
};

/// vCPUs that several offers share: all types of a family in a market, as providers count them.
struct VcpuQuota {
  std::string family;
  proto::Market market = proto::Market::kSpot;
  int vcpus = 0;
};

/// Where an offer can be had, and for how much.
struct OfferPlace {
  int zone = -1;  // index into PlanProblem::zones; -1: in each of them
  double usd_per_hour = 0;
};

/// Something that can be rented: a worker class in a market. Two offers may share a class, if they
/// are of no pool.
struct Offer {
  int worker_class = 0;  // index into SpeedModel::classes()
  proto::Market market = proto::Market::kSpot;
  double usd_per_hour = 0;
  int quota = 0;            // most of it
  int held = 0;             // running already: the plan keeps them
  int pool = -1;            // index into PlanProblem::pools; -1: none
  std::string zone = {};    // of a spot price
  double billed_s_min = 0;  // that one is paid for, however soon the loss is reached
  // Where it can be had, all workers of the offer in one of these; `usd_per_hour` is the least of
  // them. Empty: in each zone, for `usd_per_hour`.
  std::vector<OfferPlace> places = {};
  double start_up_s = 0;  // from asking for one until it is up
  int vcpu_quota = -1;    // index into PlanProblem::vcpu_quotas; -1: none
  int vcpus = 0;          // of one
};

/// Server hosts to choose among: 1 to hosts_max of a type.
struct ServerOffer {
  std::string instance_type;
  double link_bytes_per_s = 0;
  double usd_per_hour = 0;  // 0: not counted, as spotDNN's published costs
  int hosts_min = 1;
  int hosts_max = 1;
  int pool = -1;             // as an offer's
  ServerMemory memory = {};  // hosts_min of them hold the job
  double billed_s_min = 0;   // as an offer's
  int zone = -1;             // that they are in; -1: whatever zone workers are in
  double start_up_s = 0;     // this and those below as an offer's
  int vcpu_quota = -1;
  int vcpus = 0;
};

/// A type that can't hold the job, so that it is neither an offer nor a server.
struct LeftOut {
  std::string instance_type;  // of workers with several minibatches "g3.8xlarge:1024"
  bool is_server = false;
  std::string why;
};

struct Goal {
  double loss = 0;
  double seconds_max = 0;   // infinity: none
  double usd_max = 0;       // infinity: none
  double confidence = 0.5;  // at which seconds_max and usd_max hold; 0.5: the expected value
  double takeover_s = 0;    // added to the time of a fleet that differs from the held one
  // Such a fleet also begins when the slowest of its new machines is up (Offer::start_up_s).
  bool counts_start_up = false;
  // For a run that is under way: the limits are what it has left. The loss model knows of it too.
  double loss_now = 0;    // 0: it begins
  double steps_done = 0;  // 0: not told
  double pace = 1;        // RunProgress::pace
  // Most that the fleet with its servers may be expected to cost an hour; infinity: no limit.
  double usd_per_hour_max = std::numeric_limits<double>::infinity();
};

struct FleetChoice {
  std::vector<int> counts;  // per offer
  int server_offer = 0;
  int server_hosts = 1;
  SpeedPrediction speed;
  double steps = 0;
  double seconds = 0;
  double usd = 0;
  double start_s = 0;       // of `seconds`, until it trains
  double traffic_usd = 0;   // of `usd`, for what crosses zones
  std::vector<int> places;  // per offer, of Offer::places; empty where nothing crosses zones
};

/// Why there is no plan: the constraint that fails first and the nearest goals that can be met.
struct Infeasible {
  std::string reason;             // one line for people
  double loss_floor = 0;          // no fleet gets below
  double loss_start = 0;          // above 0: met before the first step, lower losses can be asked
  double seconds_min = 0;         // the fastest fleet's time to the loss; infinity: never
  double usd_min_in_time = 0;     // the cheapest in time, when only the budget fails
  double seconds_min_in_usd = 0;  // the fastest within budget, when only the time fails
  double usd_per_hour_min = 0;    // the cheapest fleet's, when the price of an hour fails
};

/// What a search knows, for people who wait.
struct SearchProgress {
  uint64_t fleets = 0;   // evaluated
  double usd_best = 0;   // infinity: none was found yet
  double usd_bound = 0;  // no fleet that meets the goal costs less; 0: not known yet
};

/// Asked now and then during a search.
class SearchWatch {
 public:
  virtual ~SearchWatch() = default;
  /// False ends the search with the best that it has; from then on it is false.
  virtual bool GoesOn(const SearchProgress& progress) = 0;
};

struct PlanAnswer {
  std::vector<FleetChoice> best;  // cheapest first, different fleets; empty: see `infeasible`
  Infeasible infeasible;
  uint64_t fleets_evaluated = 0;
  proto::Certainty certainty = proto::Certainty::kBestFound;
  // When only the best found, by "exact": no fleet that meets the goal costs less. 0: not known.
  double usd_bound = 0;
  bool is_stopped = false;  // by the watch
};

struct PlanProblem {
  const SpeedModel* speed = nullptr;
  const LossModel* loss = nullptr;
  int local_steps = 1;  // minibatches of a worker between two exchanges
  std::vector<Offer> offers;
  std::vector<ServerOffer> servers;
  std::vector<QuotaPool> pools = {};
  std::vector<VcpuQuota> vcpu_quotas = {};
  std::vector<std::string> zones = {};
  // By zones of either end: USD for a byte that goes from one to the other. Empty: nothing costs.
  std::vector<std::vector<double>> usd_per_byte = {};
  double bytes_per_step = 0;  // both ways, of a worker's minibatch; 0: not known
  // Per offer: what runs already of a fleet that need not be kept; `held` is 0 then. Empty: what is
  // held runs, and nothing else.
  std::vector<int> runs = {};
  std::vector<LeftOut> left_out = {};  // for people
  FleetSize measured;  // the most of each in fleets whose speed is known; 0: not known
  Goal goal;
  int answers_max = 3;
  // Workers of a plan. With n_lower and n_upper of spotDNN (16) and (15), "spotdnn" tries the
  // windows that its paper does.
  int workers_min = 1;
  int workers_max = std::numeric_limits<int>::max();
  // Where "exact" ends with the best that it has, in nodes of its search: some ten seconds. Goals
  // that hardly any of very many fleets meets get there.
  uint64_t effort_max = 300'000'000;
  SearchWatch* watch = nullptr;  // of "exact", and of those that use it or try every fleet
};

/// Minibatches of a worker that are lost when it is killed, in the mean: half a round of local
/// steps, and no less than the one in hand.
inline double MinibatchesLost(const PlanProblem& problem) {
  return problem.local_steps > 2 ? problem.local_steps / 2.0 : 1;
}

/// A named way to choose.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual std::string_view name() const = 0;
  /// Errors: kInvalidArgument for a problem that makes no sense (no offer, quota 0 everywhere,
  /// ...).
  virtual Result<PlanAnswer> Solve(const PlanProblem& problem) const = 0;
};

/// "exact", "spotdnn" (as the paper says), "spotdnn-prototype" (as its released code does),
/// "exhaustive", "ideal", "homogeneous", "on-demand"; null for another name.
std::unique_ptr<Strategy> MakeStrategy(std::string_view name);
std::vector<std::string_view> StrategyNames();

}  // namespace ps::provisioner
