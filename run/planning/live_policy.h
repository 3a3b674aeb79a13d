#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "provisioner/simulator/fleet_policy.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"

namespace ps::run {

// The policies of psctl simulate, asked about the fleet of a run. Pure: facts in, decisions out;
// who looks at the run and changes its fleet is another's business.

/// How a policy decides for a run. Seconds are those of the facts.
struct LivePolicySettings {
  std::string policy;
  uint32_t workers_max = 1;  // that take part
  double interval_s = 60;
  double start_s = 120;  // from asking for a machine until its worker takes part
  double detect_s = 0;   // until a loss is noticed
  double hand_s = 600;   // for which what another one asks for is left alone; 0: it never is
  double settle_s = 5;   // for which a fleet has to be whole for its speed to count
  double samples_wanted = 0;
  double deadline_s = 0;
  double step_samples = 0;  // of a worker
  double speed_of_one = 0;  // samples/s of a worker alone until one is measured; 0: not known
  double spot_usd_per_hour = 0;
  double on_demand_usd_per_hour = 0;
};

/// The types of machine that a policy decides about; `on_demand` is empty without one.
struct PolicyTypes {
  std::string spot;
  std::string on_demand;
};

PolicyTypes PolicyTypesOf(const proto::JobConfig& config);
/// Requires: the job has a policy. `samples_total`: of the whole job.
LivePolicySettings PolicySettingsOf(const proto::JobConfig& config, uint64_t samples_total);

/// Machines of one type.
struct MachineCounts {
  uint32_t wanted = 0;
  uint32_t present = 0;
  uint32_t waiting = 0;  // that can't be started now, says who starts them

  friend bool operator==(const MachineCounts&, const MachineCounts&) = default;
};

/// What is known of the run now. Times ascend.
struct PolicyFacts {
  double now_s = 0;  // of training
  MachineCounts spot;
  MachineCounts on_demand;
  std::optional<uint32_t> available;  // spot machines that can be had, where somebody knows
  double samples = 0;
  double samples_per_s = 0;
};

PolicyFacts PolicyFactsOf(const proto::JobStatus& status, const PolicyTypes& types);

struct PolicyDecision {
  bool has_change = false;
  provisioner::FleetWish fleet;  // to ask for, with a change
  double hand_until_s = 0;       // what another one asked for is left alone until then
  std::string why;               // a line for people: the forecast and the alternatives in it
};

/// What a look at a run came to.
struct PolicyLook {
  bool is_interval = false;  // one has begun
  uint32_t available = 0;    // spot machines that can be had, as far as is known
  std::optional<PolicyDecision> decision;
};

/// What the policy knew before its process was started anew.
struct PolicyMemory {
  std::vector<uint32_t> counts;  // machines that could be had, by interval
  std::optional<provisioner::FleetWish> asked;
  double hand_until_s = 0;
};

/// What the run's log says of it. Other lines are passed over.
PolicyMemory RecallPolicy(std::string_view log);

/// Samples/s by the number of workers, as a run tells them. Between two numbers that were measured
/// it is a straight line; beyond them each worker makes what it makes at the nearest one.
class MeasuredSpeeds {
 public:
  void Note(uint32_t workers, double samples_per_s);

  bool empty() const { return by_workers_.empty(); }

  /// Rates of 0, 1, 2, ... workers; they never fall. Requires: something is noted.
  void Fill(std::vector<double>* rates) const;

 private:
  double Of(uint32_t workers) const;

  std::map<uint32_t, double> by_workers_;
};

class LivePolicy {
 public:
  /// `memory`: of a run whose coordinator was started anew; else empty.
  LivePolicy(const LivePolicySettings& settings, PolicyMemory memory);
  LivePolicy(const LivePolicy&) = delete;
  LivePolicy& operator=(const LivePolicy&) = delete;

  /// Asks the policy where that is due: once an interval, and when machines came or went.
  PolicyLook Look(const PolicyFacts& facts);

  /// The fleet of a decision is wanted from now on.
  void NoteAsked(const provisioner::FleetWish& fleet) { asked_ = fleet; }

 private:
  struct Seen {
    uint32_t available = 0;
    MachineCounts spot;
    MachineCounts on_demand;

    friend bool operator==(const Seen&, const Seen&) = default;
  };

  bool IsSpeedMissing() const;
  void NoteSpeed(const PolicyFacts& facts);
  bool NoteInterval(double now_s, uint32_t available);
  uint32_t Available(const PolicyFacts& facts);
  std::optional<PolicyDecision> WatchHand(const PolicyFacts& facts);
  std::optional<PolicyDecision> Decide(const PolicyFacts& facts, uint32_t available);
  std::optional<PolicyDecision> SayTrouble(const provisioner::FleetWish& stays, const Status& why);
  std::string Text(
      const provisioner::FleetWish& fleet,
      const provisioner::FleetWish& before,
      uint32_t available) const;

  // Constant after construction.
  const LivePolicySettings settings_;
  const uint32_t machines_max_;
  // The job, which the policy looks at.
  provisioner::SimulatedJob job_;
  std::unique_ptr<provisioner::FleetPolicy> policy_;  // null: not made yet
  MeasuredSpeeds speeds_;
  uint32_t whole_ = 0;  // workers that take part, since then
  double whole_since_s_ = 0;
  std::vector<uint32_t> counts_;
  std::optional<double> interval_begun_s_;
  bool has_interval_ = false;      // of which the policy does not know yet
  std::optional<uint32_t> limit_;  // machines that can be had, while more were asked for
  std::optional<provisioner::FleetWish> asked_;
  double hand_until_s_ = 0;
  std::optional<Seen> seen_;  // when it was asked last
  std::optional<uint32_t> said_available_;
  std::string said_trouble_;
};

}  // namespace ps::run
