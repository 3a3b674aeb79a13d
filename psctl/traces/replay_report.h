#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/simulator/fleet_policy.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"
#include "psctl/traces/replay_trace.h"
#include "run/report/node_times.h"

namespace ps::psctl {

/// A replay at one moment.
struct ReplayPoint {
  double at_s = 0;           // of the clock, since the replay's beginning
  uint32_t available = 0;    // machines that the trace has
  uint32_t present = 0;      // workers that take part
  uint64_t samples = 0;      // counted since the replay's beginning
  double samples_per_s = 0;  // of the second before, or of two steps; NaN: not known yet
  double loss = 0;           // NaN: no step is counted yet
};

/// What a policy said at one moment.
struct ReplayDecision {
  double at_s = 0;
  bool has_change = false;
  std::string why;
  provisioner::FleetWish fleet = {};
};

/// The fleet that is wanted from one moment of the trace on.
struct ReplayFleet {
  double at_s = 0;  // of the trace
  provisioner::FleetWish fleet = {};

  friend bool operator==(const ReplayFleet&, const ReplayFleet&) = default;
};

/// One fleet for each interval in which it became another one: the interval's last, from the
/// interval's beginning on. A replay looks at its run now and then, so within an interval times
/// differ.
std::vector<ReplayFleet> FleetsByInterval(
    const std::vector<ReplayFleet>& fleets, double interval_s);

/// What a policy comes to on a replay's trace in virtual time.
struct ReplaySimulation {
  double samples = 0;
  std::vector<ReplayFleet> fleets;  // by interval
};

/// What the replayed run is to reach. Seconds and USD count from the beginning of its training, as
/// in a run that nobody replays: they are not those of the trace.
struct ReplayGoal {
  double loss = 0;        // of training; 0: there is no goal
  double within_s = 0;    // 0: no limit
  double budget_usd = 0;  // 0: no limit
};

/// A job's goal, or the loss at which it ends.
ReplayGoal ReplayGoalOf(const proto::JobConfig& config);

/// What a replay came to. Times are of the clock.
struct ReplayReport {
  std::string job;
  std::string trace;
  double speedup = 1;
  double seconds = 0;
  uint64_t samples = 0;
  double samples_ideal = 0;   // of a fleet that loses nothing at joins and leaves; 0: not known
  double node_s = 0;          // that the trace had
  run::NodeTimes node_times;  // what they were for
  uint64_t revocations = 0;   // workers that the trace took
  uint64_t joins = 0;
  double start_s = 0;  // from asking for a worker until it took part, on average; 0: none was
  uint64_t steps_lost = 0;
  double usd = 0;
  std::optional<double> loss;            // nothing: no step was counted
  std::map<std::string, double> step_s;  // of the types of machine, as the job says
  ReplayGoal goal;
  double best_loss = 0;        // until `has_reached`
  bool has_reached = false;    // the loss of `goal`
  double trained_s = 0;        // from the beginning of training until it was reached, or the end
  double usd_of_training = 0;  // likewise
  std::vector<ReplayPoint> points;
  std::string policy;  // that chose among the machines; empty: all were used
  std::vector<ReplayDecision> decisions;
  double interval_s = 60;           // of the trace: how often the policy decides at least
  double samples_wanted = 0;        // of the whole job
  std::vector<ReplayFleet> fleets;  // that the policy wanted, by interval
  std::optional<ReplaySimulation> simulation;
  std::string simulation_trouble;  // why there is none
};

/// Adds up what a replay comes to, from one look at the run after the other.
class ReplayMeter {
 public:
  explicit ReplayMeter(ReplayReport begun)
      : report_(std::move(begun)), node_times_(report_.step_s) {}

  /// Requires: `at_s` ascends.
  void Look(double at_s, uint32_t available, const proto::JobStatus& status);

  void NoteRevoked(uint64_t workers) { report_.revocations += workers; }

  void NoteDecision(ReplayDecision decision) { report_.decisions.push_back(std::move(decision)); }

  /// The speed of one machine is the median of what each made while all that there were took part.
  ReplayReport Finish() const;

 private:
  void LookAtGoal(const proto::JobStatus& status);
  /// Samples/s until now, when so many were counted.
  double SpeedUntil(double at_s, uint64_t samples) const;

  ReplayReport report_;
  run::NodeTimeMeter node_times_;
  bool is_begun_ = false;
  uint64_t samples_before_ = 0;
  uint64_t joins_before_ = 0;
  uint64_t steps_lost_before_ = 0;
  double starting_node_s_ = 0;  // wanted, and not taking part yet
  uint32_t begins_with_ = 0;    // wanted
  double usd_before_ = 0;
  double full_since_s_ = -1;
  uint64_t samples_then_ = 0;
  std::vector<double> speeds_;  // samples/s of one machine
};

std::string RenderReplay(const ReplayReport& report);

/// The same as JSON. Times of decisions and fleets are of the trace, the others of the clock.
std::string JsonOfReplay(const ReplayReport& report);

/// Fleet, speed and loss over time, above each other.
std::string PlotReplay(const ReplayReport& report);

}  // namespace ps::psctl
