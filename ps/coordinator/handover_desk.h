#pragma once

#include <cstdint>
#include <set>

#include "ps/coordinator/checkpoint_desk.h"
#include "ps/coordinator/job.h"
#include "ps/coordinator/server_watch.h"

namespace ps::coordinator {

/// Servers whose machines are taken back. A checkpoint is made, then the server is told to leave;
/// it is started again, and comes back from that checkpoint. Where all servers go back together,
/// training waits meanwhile, so that nothing has to be done again. What is to be handed over is
/// part of the job's state, so a coordinator that comes back goes on with it.
class HandoverDesk {
 public:
  HandoverDesk(Job* job, ServerWatch* servers, CheckpointDesk* checkpoints)
      : job_(job), servers_(servers), checkpoints_(checkpoints) {}

  /// A person's notice to a server.
  void On(const Call& call, const proto::NoticeRequest& message);
  /// Does the next thing for each of them. Errors: as ServerWatch::OnServerLost.
  Status OnTick(const Call& call);

 private:
  /// It may be over then, and gone from the job's state.
  Status Advance(uint32_t server, const Call& call);
  void TellToLeave(uint32_t server, const Call& call) const;
  /// How many of the server's shards are connected.
  uint32_t CountConnected(uint32_t server) const;

  Job* const job_;
  ServerWatch* const servers_;
  CheckpointDesk* const checkpoints_;
  std::set<uint32_t> told_;  // servers that this process has told to leave
};

}  // namespace ps::coordinator
