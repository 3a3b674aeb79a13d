#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ps/coordinator/checkpoints/checkpoint_desk.h"
#include "ps/coordinator/servers/servers_desk.h"
#include "ps/coordinator/state/job.h"
#include "ps/coordinator/workers/join_desk.h"

namespace ps::coordinator {

/// A job that no worker trains needs no servers. When there has been none for
/// fleet.park_servers_after_s, and a checkpoint has all that was done (PauseDesk), the servers are
/// told to leave, and are killed where they do not. They are started again as soon as a worker
/// comes, or is asked for, and begin from that checkpoint as servers that were lost do.
///
/// Servers that the fleet has not started stay, and so do all others then. That the servers are
/// parked is part of the job's state, so a coordinator that comes back wakes them all the same.
class ParkDesk {
 public:
  ParkDesk(Job* job, const CheckpointDesk* checkpoints, const JoinDesk* joins, ServersDesk* servers)
      : job_(job), checkpoints_(checkpoints), joins_(joins), servers_(servers) {}

  /// Parks the servers, sees to it that they go, or wakes them.
  void OnTick(const Call& call);
  /// Starts servers that are parked. Nothing happens when they are not.
  void Wake(const std::string& why, const Call& call);
  /// Whether the servers are parked; the registration is dealt with then.
  bool TakesServer(const Call& call, const proto::RegisterShard& message);

 private:
  bool MayPark(const Call& call) const;
  void Park(const Call& call);

  Job* const job_;
  const CheckpointDesk* const checkpoints_;
  const JoinDesk* const joins_;
  ServersDesk* const servers_;
  std::optional<TimePoint> kill_at_;  // parked: who is still there then has not heard
};

}  // namespace ps::coordinator
