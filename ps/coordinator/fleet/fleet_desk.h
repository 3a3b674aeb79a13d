#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "ps/coordinator/fleet/notice_desk.h"
#include "ps/coordinator/fleet/prewarm_desk.h"
#include "ps/coordinator/fleet/reconcile.h"
#include "ps/coordinator/servers/park_desk.h"
#include "ps/coordinator/servers/servers_desk.h"
#include "ps/coordinator/state/job.h"
#include "ps/coordinator/state/places.h"

namespace ps::coordinator {

/// The fleet that is wanted, against the one that is there. Each group of the config's `workers` is
/// wanted with so many workers. A worker that is told to be gone counts no more, so another one is
/// there before it is. Missing workers are started, surplus ones hand over and leave: Reconcile
/// says which, and this class asks it at every tick and does as it says.
///
/// Workers that others brought in, by hand or by an `add` fault, are in no group and stay.
class FleetDesk {
 public:
  FleetDesk(
      Job* job, NoticeDesk* notices, ServersDesk* servers, PrewarmDesk* prewarm, ParkDesk* park);

  /// As Scale, by what the peer calls itself.
  void On(const Call& call, const proto::ScaleRequest& message);
  /// A person, a plan or a policy changes what is wanted, and the log says who. Errors: as
  /// ScaleRequest; nothing has changed then.
  Result<proto::ScaleReply> Scale(
      const std::vector<proto::ScaleChange>& changes, const std::string& by, const Call& call);
  /// Brings what is there nearer to what is wanted. Cost: seats.
  void OnTick(const Call& call);

  /// What an earlier process of the coordinator was asked for may not be done yet.
  void Resume() { is_emptying_ = true; }

 private:
  void Want(std::vector<uint32_t> wanted, const std::string& by, const Call& call);
  Status CheckWanted(const std::vector<uint32_t>& wanted) const;
  DesiredFleet Desired() const;
  /// Without groups where nothing may be done about them.
  ObservedFleet Observe(const DesiredFleet& desired, TimePoint now);
  void NoteAwaited(TimePoint now);
  /// Carries out what of `actions` gives workers up. False: nothing does.
  bool GaveUp(const std::vector<FleetAction>& actions, const Call& call);
  /// Carries out the others.
  void Act(const DesiredFleet& desired, const std::vector<FleetAction>& actions, const Call& call);
  void StartOne(const Start& action, const Call& call);
  void Say(const Wait& action);
  bool IsNothingLeftToLease() const;

  Job* const job_;
  NoticeDesk* const notices_;
  ServersDesk* const servers_;
  PrewarmDesk* const prewarm_;
  ParkDesk* const park_;
  bool is_filling_ = false;                // asked for, and not all of it was started yet
  bool is_emptying_ = false;               // asked for, and not all were told to leave yet
  std::map<WorkerId, TimePoint> awaited_;  // seats of expected workers, and since when
  StartLimit limit_;
  std::set<PlaceKey> taken_;  // since all that were missing were started
  std::set<uint32_t> told_;   // groups of which it was said that none can be started
};

}  // namespace ps::coordinator
