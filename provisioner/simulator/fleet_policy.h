#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

/// From `at_s` on, a spot machine costs so much.
struct PriceStep {
  double at_s = 0;
  double usd_per_hour = 0;

  friend bool operator==(const PriceStep&, const PriceStep&) = default;
};

/// A job as policies see it. Machines are of one type.
struct SimulatedJob {
  // samples/s of 0, 1, 2, ... workers together; never falls. One less than its size is the most
  // workers that take part.
  std::vector<double> samples_per_s;
  // From asking for a machine until its worker takes part.
  double start_s = 120;
  // Samples of a worker's step, and the mode of training. The engine `rates` needs neither.
  double step_samples = 0;
  proto::Mode mode = proto::Mode::kAsync;
  // Work of a worker that a revocation undoes: a step at most.
  double lost_s = 0;
  // From a revocation until the worker's seat is given to another one.
  double detect_s = 0;
  // A worker is told, and its machine goes so much later. Not by rates.
  double notice_s = 0;
  // Between two decisions at most.
  double interval_s = 60;
  // The goal, 0: none, train to the end of the trace; and its deadline, 0: none.
  double samples_wanted = 0;
  double deadline_s = 0;
  double spot_usd_per_hour = 0;
  // 0: not known.
  double on_demand_usd_per_hour = 0;
  // What all servers cost, which are there all the time.
  double servers_usd_per_hour = 0;
  // Over time, from 0 on and ascending, instead of `spot_usd_per_hour`. Empty: it stays.
  std::vector<PriceStep> spot_prices;
  // For what workers send and fetch.
  double egress_usd_per_sample = 0;
  // Share of starts of spot machines that come to nothing, below 1; and which ones do.
  double launch_failures = 0;
  uint64_t failure_seed = 0;

  uint32_t workers_max() const { return static_cast<uint32_t>(samples_per_s.size() - 1); }
};

/// A spot machine of a trace: it can be had from `begin_s` until `end_s`.
struct SpotMachine {
  double begin_s = 0;
  double end_s = 0;  // infinity: it outlives the trace

  friend bool operator==(const SpotMachine&, const SpotMachine&) = default;
};

/// What a policy is told. Nothing here is of the future.
struct FleetView {
  double now_s = 0;
  bool is_interval = false;          // `counts` has grown by one
  std::span<const uint32_t> counts;  // spot machines that could be had, by interval, until now
  uint32_t available = 0;            // now
  uint32_t spot = 0;                 // held, those that start included
  uint32_t spot_working = 0;
  uint32_t on_demand = 0;  // likewise
  uint32_t on_demand_working = 0;
  double samples = 0;  // so far
};

/// The fleet that a policy wants from now on.
struct FleetWish {
  uint32_t spot = 0;  // no more than can be had are taken
  uint32_t on_demand = 0;

  friend bool operator==(const FleetWish&, const FleetWish&) = default;
};

/// A fleet that a policy looked at, and what it is worth.
struct FleetAlternative {
  FleetWish fleet;
  double worth = 0;  // in units of PolicyReason::worth_of

  friend bool operator==(const FleetAlternative&, const FleetAlternative&) = default;
};

/// Why a policy wants what it wants.
struct PolicyReason {
  std::string why;  // for people
  // Machines that can be had in the next intervals, no more than the job has workers; may be empty.
  std::vector<double> forecast;
  std::string_view worth_of;                   // what alternatives are worth, "samples/s"
  std::vector<FleetAlternative> alternatives;  // the wish among them; few
};

/// Decides which machines a job holds. It reads no clock and draws nothing, so that the same object
/// can be asked by a simulation and by a run.
class FleetPolicy {
 public:
  virtual ~FleetPolicy() = default;

  virtual std::string_view name() const = 0;
  /// Asked at least once in an interval, and whenever the count of machines or workers changes.
  virtual FleetWish Decide(const FleetView& view) = 0;
  /// Why Decide answered as it last did. Made only when asked, so that nobody pays for it else.
  virtual PolicyReason Explain() const = 0;
};

/// Spare machines that "standby" holds, as a share of the workers.
inline constexpr double kSpareShare = 0.1;

/// "reactive", "hold", "parcae", "standby", "deadline"; see docs/traces.md.
std::vector<std::string_view> FleetPolicyNames();

/// `job` has to outlive the policy. Its speeds may change between two questions, their number may
/// not.
/// Errors: kNotFound (no such name), kInvalidArgument (the policy needs what the job lacks, or its
/// goal can't be reached).
Result<std::unique_ptr<FleetPolicy>> MakeFleetPolicy(
    std::string_view name, const SimulatedJob& job);

}  // namespace ps::provisioner
