#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include "ps/coordinator/checkpoints/checkpoint_desk.h"
#include "ps/coordinator/servers/server_watch.h"
#include "ps/coordinator/state/job.h"

namespace ps::coordinator {

/// The longest grace of a notice.
inline constexpr Duration kGraceMax = std::chrono::hours(1);

/// As messages carry it. What is over is 0.
uint32_t GraceMillis(Duration grace);

/// Servers whose machines are taken back. Another process of the server is started at once, its
/// successor, which waits for its place. A checkpoint is made, then the server is told to leave;
/// the successor begins from that checkpoint.
///
/// No train lease is granted meanwhile, so the steps under way end, the checkpoint has them all,
/// and nothing has to be done again. Where not all servers go back together, and the steps take
/// more than half of the grace, they go on instead, and what comes after the checkpoint is lost.
///
/// Where no sample is left to be leased the server stays: the model is read from it soon.
///
/// What is to be handed over is part of the job's state, so a coordinator that comes back goes on
/// with it.
class HandoverDesk {
 public:
  HandoverDesk(Job* job, ServerWatch* servers, CheckpointDesk* checkpoints)
      : job_(job), servers_(servers), checkpoints_(checkpoints) {}

  /// A person's notice to a server.
  void On(const Call& call, const proto::NoticeRequest& message);
  /// The same by the server itself: its provider's, or whoever runs its machine.
  void On(const Call& call, const proto::ServerNotice& message);
  /// The successor has ended, or was not started: another one is when the server is gone.
  void OnSuccessorEnded(const proto::ProcessEnd& end);
  /// Does the next thing for each of them. Errors: as ServerWatch::OnServerLost.
  Status OnTick(const Call& call);

 private:
  /// Begins, or has less time from now on. Returns what is left of the grace.
  Duration Notice(uint32_t server, Duration grace, const std::string& who, const Call& call);
  void StartSuccessor(uint32_t server);
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
