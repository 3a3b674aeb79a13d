#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ps/proto/messages.h"
#include "ps/proto/state/job_state.h"

namespace ps::proto {

/// What a machine costs now where it may be rented.
struct MarketPrice {
  std::string type;
  std::string zone;
  bool is_spot = false;
  double usd_per_hour = 0;
};

/// What a policy is told of the run whenever it is asked.
struct PolicyView {
  JobStatus status;
  PolicyRecord memory{};                 // as it left it, or another coordinator's policy
  bool was_refused = false;              // what it wanted last
  std::optional<uint32_t> available{};   // spot machines that can be had, where somebody knows
  std::vector<MarketPrice> prices{};     // of what the run may rent; empty: nobody tells any
  std::function<bool()> is_ending = {};  // nobody waits for the answer any more; null: it is false
};

struct FleetDecision {
  std::vector<ScaleChange> changes{};    // empty: the fleet stays
  std::string why{};                     // a line for people; empty: there is nothing to say
  std::string others{};                  // fleets that it had to choose from, and their worth
  std::optional<PolicyRecord> memory{};  // instead of the view's; none: that stays
  bool wants_newer_view = false;         // what it has found out is to be held against one at once
};

/// Decides how many workers of which types a run is to have. It is given all that it looks at and
/// changes nothing itself, so that a run, a replay and a simulation can ask it. Thread: one.
class FleetPolicy {
 public:
  /// A policy that looks less often sees a change of the fleet late.
  static constexpr double kLookSecondsMax = 2;

  virtual ~FleetPolicy() = default;

  /// On whose behalf it decides.
  virtual Asker asker() const = 0;
  /// How often it wants to be asked, in seconds.
  virtual double look_every_s() const = 0;
  /// Cost: a planner may take seconds.
  virtual FleetDecision Look(const PolicyView& view) = 0;
};

}  // namespace ps::proto
