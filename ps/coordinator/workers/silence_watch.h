#pragma once

#include <set>
#include <string>
#include <utility>

#include "ps/coordinator/meters/fleet_speed.h"
#include "ps/coordinator/state/evaluations.h"
#include "ps/coordinator/state/membership.h"
#include "ps/coordinator/workers/departure_desk.h"
#include "ps/coordinator/workers/lease_desk.h"
#include "ps/proto/timing.h"

namespace ps::coordinator {

/// Finds members that are silent, or that make no progress with what they owe. A member is looked
/// at when it could be over its time, and then again; nothing is done when it is heard.
class SilenceWatch {
 public:
  /// What it looks at, and who removes members; all outlive it.
  struct Uses {
    const proto::Timing& timing;
    const Duration join_timeout;
    const proto::StepSettings& settings;  // in force
    const Evaluations& evaluations;
    const FleetSpeed& speed;
    const TimePoint& shards_silent_at;
    Membership* membership;
    LeaseDesk* leases;
    DepartureDesk* departures;
  };

  explicit SilenceWatch(const Uses& uses) : uses_(uses) {}

  /// Looks at whose time could be over; the silent and the stuck are removed.
  void OnTick(const Call& call);

 private:
  struct Verdict {
    std::string lost;  // why; empty: it is not
    TimePoint next{};  // when to look again
  };

  void TakeNewMembers(TimePoint now);
  Verdict Judge(const Member& member, TimePoint now) const;
  Duration SilenceLimit(const Member& member) const;
  Duration ProgressLimit(const Member& member) const;

  const Uses uses_;
  Incarnation newest_;                                  // of those in checks_
  std::set<std::pair<TimePoint, Incarnation>> checks_;  // when to look at whom
};

}  // namespace ps::coordinator
