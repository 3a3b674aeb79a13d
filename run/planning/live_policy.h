#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "provisioner/simulator/fleet_policy.h"
#include "ps/base/status.h"
#include "ps/proto/files/profile.h"
#include "ps/proto/fleet_policy.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"

namespace ps::run {

// The policies of psctl simulate, asked about the fleet of a run.

/// How a policy decides for a run. Seconds are those of the facts.
struct LivePolicySettings {
  std::string policy;
  uint32_t workers_max = 1;  // that take part
  double interval_s = 60;
  double start_s = 120;  // from asking for a machine until its worker takes part
  double detect_s = 0;   // until a loss is noticed
  double hand_s = 600;   // for which what another one asks for is left alone; 0: it never is
  double settle_s = 5;   // for which a fleet has to be whole for its speed to count
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
/// Requires: the job has a policy.
LivePolicySettings PolicySettingsOf(const proto::JobConfig& config);

/// Has the policy reckon with the starts of its machines that the profile has measured with the
/// job's launcher, where the job leaves provisioner.start_s as it is. Returns a line that says so;
/// empty: there are none.
std::string UseMeasuredStart(
    const proto::JobConfig& config, const proto::JobProfile& profile, LivePolicySettings* settings);

/// Machines of one type.
struct MachineCounts {
  uint32_t wanted = 0;
  uint32_t present = 0;
  uint32_t waiting = 0;  // that can't be started now, says who starts them

  friend bool operator==(const MachineCounts&, const MachineCounts&) = default;
};

/// What a policy looks at in a run. Times ascend.
struct PolicyFacts {
  double now_s = 0;  // of training
  MachineCounts spot;
  MachineCounts on_demand;
  std::optional<uint32_t> available;  // spot machines that can be had, where somebody knows
  double samples = 0;
  double samples_total = 0;  // of the job
  double samples_per_s = 0;
};

PolicyFacts PolicyFactsOf(const proto::JobStatus& status, const PolicyTypes& types);

/// The changes that ask for such a fleet.
std::vector<proto::ScaleChange> ChangesFor(
    const provisioner::FleetWish& fleet, const PolicyTypes& types);

/// The fleet that was decided on. Requires: the decision says why.
provisioner::FleetWish FleetOf(const proto::FleetDecision& decision);

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

class LivePolicy final : public proto::FleetPolicy {
 public:
  LivePolicy(const LivePolicySettings& settings, PolicyTypes types);

  proto::Asker asker() const override { return proto::Asker::kPolicy; }

  double look_every_s() const override;
  /// Asks the policy where that is due: once an interval, and when machines came or went.
  proto::FleetDecision Look(const proto::PolicyView& view) override;

 private:
  struct Seen {
    uint32_t available = 0;
    MachineCounts spot;
    MachineCounts on_demand;

    friend bool operator==(const Seen&, const Seen&) = default;
  };

  bool IsSpeedMissing() const;
  /// The prices of now, where somebody tells them, instead of the job's.
  void NotePrices(const std::vector<proto::MarketPrice>& prices);
  void NoteSpeed(const PolicyFacts& facts);
  void NoteInterval(double now_s, uint32_t available);
  uint32_t Available(const PolicyFacts& facts);
  /// What the policy says, if it is due; empty: nothing.
  proto::FleetDecision Decision(const PolicyFacts& facts);
  proto::FleetDecision WatchHand(const PolicyFacts& facts);
  proto::FleetDecision Decide(const PolicyFacts& facts, uint32_t available);
  proto::FleetDecision SayTrouble(const Status& why);
  void Remember(const provisioner::FleetWish& fleet);
  void Explain(
      const provisioner::FleetWish& fleet,
      const provisioner::FleetWish& before,
      uint32_t available,
      proto::FleetDecision* decision) const;

  // Constant after construction.
  const LivePolicySettings settings_;
  const PolicyTypes types_;
  const uint32_t machines_max_;
  // The job, which the policy looks at.
  provisioner::SimulatedJob job_;
  std::unique_ptr<provisioner::FleetPolicy> policy_;  // null: not made yet
  proto::PolicyRecord memory_;                        // the view's, and what has changed of it
  MeasuredSpeeds speeds_;
  uint32_t whole_ = 0;  // workers that take part, since then
  double whole_since_s_ = 0;
  std::optional<double> interval_begun_s_;
  bool has_interval_ = false;      // of which the policy does not know yet
  std::optional<uint32_t> limit_;  // machines that can be had, while more were asked for
  std::optional<Seen> seen_;       // when it was asked last
  std::optional<uint32_t> said_available_;
  std::string said_trouble_;
};

}  // namespace ps::run
