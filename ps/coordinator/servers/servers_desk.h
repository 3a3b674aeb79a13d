#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ps/coordinator/checkpoints/checkpoint_desk.h"
#include "ps/coordinator/servers/move_desk.h"
#include "ps/coordinator/state/job.h"
#include "ps/coordinator/state/servers_wanted.h"
#include "ps/coordinator/state/start_pace.h"
#include "ps/proto/state/launch_journal.h"

namespace ps::coordinator {

/// How many servers there are, and what share of the parameters each has. New ones are started
/// first, and wait beside the job. Then they become part of it without chunks, and get some at a
/// time while training goes on (MoveDesk); those that are to leave do so when they have none.
///
/// What is wanted and what has been done of it are part of the job's state, so a coordinator that
/// comes back goes on.
class ServersDesk {
 public:
  ServersDesk(Job* job, CheckpointDesk* checkpoints, MoveDesk* moves);

  /// As ServersWantedAfter.
  Result<ServersWanted> WantedAfter(const std::vector<proto::ScaleChange>& changes) const;
  void Want(const ServersWanted& wanted, const std::string& by, const Call& call);
  /// Does the next thing.
  void OnTick(const Call& call);
  /// Called after every event: does the next thing at once, if all that it needs is there.
  void GoOn(const Call& call);

  /// After OnTick and GoOn: other shards are to be part of the job, ResizeShards.
  bool wants_other_shards() const { return wants_other_shards_; }

  /// Whether the registration is of a shard that is no part of the job; it is dealt with then.
  bool TakesStranger(const Call& call, const proto::RegisterShard& message);
  void OnClosed(proto::PeerId peer);
  /// Whether the server is no part of the job; its end is dealt with then.
  bool TakesEnd(const proto::ProcessEnd& end, const Call& call);
  /// After a restart: those that need not be started. `launches` as StartMissing.
  void NoteLaunches(std::span<const proto::LaunchRecord> launches, TimePoint now);

  /// The job has gone back: which processes are on their way out, and which wait, stays known.
  void Remember(ServersDesk&& before);

  /// The process is told to leave: its end is no news.
  void NoteLeaving(LaunchId launch);

 private:
  /// One that waits beside the job.
  struct Newcomer {
    proto::PeerId peer;
    LaunchId launch;
    int64_t pid = 0;
    TimePoint heard{};
  };

  struct Started {
    LaunchId launch;
    TimePoint at{};
  };

  bool MayAdvance() const;
  void Advance(const Call& call);
  bool MayResize() const;
  bool MustSettle() const;
  uint32_t ShardsOf(uint32_t servers) const;
  /// By shard, of the servers that are wanted.
  std::vector<uint32_t> Shares() const;
  bool HaveAllCome() const;
  void StartMissing(const Call& call);
  void ForgetSilent(const Call& call);
  void GiveUp(const std::string& why, const Call& call);
  void SendAway(const Call& call);

  Job* const job_;
  CheckpointDesk* const checkpoints_;
  MoveDesk* const moves_;
  bool wants_other_shards_ = false;
  std::string asker_;  // for what is wanted; empty: it was asked of an earlier coordinator
  std::map<ShardId, Newcomer> newcomers_;
  std::map<uint32_t, Started> started_;  // new servers
  std::set<LaunchId> leaving_;
  uint32_t failures_ = 0;  // of new servers, since servers were asked for
  StartPace pace_;
};

}  // namespace ps::coordinator
