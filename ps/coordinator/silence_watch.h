#pragma once

#include <set>
#include <string>
#include <utility>

#include "ps/coordinator/departure_desk.h"
#include "ps/coordinator/job.h"
#include "ps/coordinator/lease_desk.h"

namespace ps::coordinator {

/// Finds members that are silent, or that make no progress with what they owe. A member is looked
/// at when it could be over its time, and then again; nothing is done when it is heard.
class SilenceWatch {
 public:
  SilenceWatch(Job* job, LeaseDesk* leases, DepartureDesk* departures)
      : job_(job), leases_(leases), departures_(departures) {}

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

  Job* const job_;
  LeaseDesk* const leases_;
  DepartureDesk* const departures_;
  Incarnation newest_;                                  // of those in checks_
  std::set<std::pair<TimePoint, Incarnation>> checks_;  // when to look at whom
};

}  // namespace ps::coordinator
