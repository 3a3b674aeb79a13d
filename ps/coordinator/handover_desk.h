#pragma once

#include <cstdint>
#include <map>

#include "ps/coordinator/checkpoint_desk.h"
#include "ps/coordinator/job.h"
#include "ps/coordinator/shard_desk.h"

namespace ps::coordinator {

/// Servers whose machines are taken back. A checkpoint is made, then the server is told to leave;
/// it is started again, and comes back from that checkpoint. Where all servers go back together,
/// training waits meanwhile, so that nothing has to be done again.
///
/// A coordinator that comes back has forgotten it: the server is lost then when its machine is
/// gone.
class HandoverDesk {
 public:
  HandoverDesk(Job* job, ShardDesk* shards, CheckpointDesk* checkpoints)
      : job_(job), shards_(shards), checkpoints_(checkpoints) {}

  /// A person's notice to a server.
  void On(const Call& call, const proto::NoticeRequest& message);
  /// Does the next thing for each of them. Errors: as ShardDesk::OnServerLost.
  Status OnTick(const Call& call);

 private:
  struct Handover {
    TimePoint due{};
    uint64_t checkpoint = 0;  // the one that it waits for; 0: not open yet
    bool is_told = false;     // to leave
  };

  /// Sets `is_over` when nothing is left to do about it.
  Status Advance(uint32_t server, Handover* handover, const Call& call, bool* is_over);
  void TellToLeave(uint32_t server, const Call& call) const;
  bool IsConnected(uint32_t server) const;

  Job* const job_;
  ShardDesk* const shards_;
  CheckpointDesk* const checkpoints_;
  std::map<uint32_t, Handover> handovers_;  // by server
};

}  // namespace ps::coordinator
