#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/retry.h"
#include "ps/base/time.h"
#include "ps/coordinator/state/server_starts.h"
#include "ps/coordinator/state/touched_rows.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/proto/state/job_state.h"

namespace ps::coordinator {

using proto::ShardRecord;

/// One server shard: its record, and what only this process knows of it.
struct Shard {
  ShardId shard;
  const ShardRecord* record = nullptr;
  bool has_chunks = false;  // a shard without chunks never completes a step
  proto::PeerId peer;       // none: not connected now
  uint64_t register_request_id = 0;
  TimePoint last_heard{};  // or when its connection was lost
  proto::ShardStats stats;
  TimePoint stats_at{};  // none: it has sent none on this connection
  double received_bytes_per_s = 0;
  double sent_bytes_per_s = 0;
  std::vector<proto::Wait> waits;
  TimePoint waits_at{};
  TimePoint lost_at{};        // it is to come back since
  TimePoint registered_at{};  // the process that is to be set up
  std::string trouble;        // why it is not set up yet, as it said last
  TimePoint ready_at{};

  // What it has not acknowledged is sent again when these are due.
  RetryTimer setup_timer;
  RetryTimer membership_timer;
  RetryTimer commit_timer;

  /// One that draws its initial values can't talk meanwhile.
  bool MayBeBusy() const {
    return record->is_registered && !record->is_ready && peer != proto::PeerId() &&
           record->restore.checkpoint == 0;
  }

  /// Since when the process that is there has had the time to be set up.
  TimePoint SetUpSince() const { return std::max(lost_at, registered_at); }

  /// For how long nothing has come from it; 0 while nothing has to.
  Duration SilenceAt(TimePoint now) const {
    const bool is_watched = record->is_registered && !MayBeBusy();
    return is_watched ? now - last_heard : Duration::zero();
  }
};

/// The job's shards: fixed in number, all of them needed all the time.
class ShardTable {
 public:
  /// Works on `records`, one a shard, and marks what it changes; both outlive it.
  ShardTable(
      std::vector<ShardRecord>* records,
      uint32_t shards_per_server,
      const proto::Placement& placement,
      TouchedRows* touched);

  /// The record, to be changed, and written after the event.
  ShardRecord& Edit(const Shard& shard);

  /// Null when there is no such shard.
  Shard* Find(ShardId shard);
  Shard* FindPeer(proto::PeerId peer);

  /// The shard has this connection now; none: it has lost it.
  void Connect(Shard* shard, proto::PeerId peer);
  void MarkReady(Shard* shard);
  /// All shards with chunks have acknowledged a step in their present lives: they are ready,
  /// although the word of one that it is may have been lost.
  void MarkServed(TimePoint now);
  /// A process was started to take the server's place.
  void Await(uint32_t server, LaunchId launch);
  /// Whether it is the process that has the server's place, or is to take it.
  bool HasPlace(uint32_t server, LaunchId launch) const;
  /// The shard's process is gone: another one is to come.
  void LoseProcess(Shard* shard, TimePoint now);
  /// The shard's parameters are of no use: it begins a new life from `restore`.
  void BeginLife(Shard* shard, proto::RestoreOrder restore);
  /// The table of a job that has gone back: takes over how often its servers were lost, and when
  /// they are started again. They are to come back since `now`.
  void RememberLosses(const ShardTable& before, TimePoint now);

  // A server that is to leave may have a successor (ShardRecord::successor).
  LaunchId SuccessorOf(uint32_t server) const;

  bool HasSuccessor(uint32_t server) const { return SuccessorOf(server) != LaunchId(); }

  /// None: it has none any more.
  void SetSuccessor(uint32_t server, LaunchId launch);

  /// Chunks have moved.
  void NotePlacement(const proto::Placement& placement);

  bool are_all_ready() const { return ready_ == shards_.size(); }

  uint32_t ServerOf(ShardId shard) const { return shard.value / shards_per_server_; }

  uint32_t server_count() const { return size() / shards_per_server_; }

  /// Parameters of the shard that has most of them.
  uint64_t largest_bytes() const { return largest_bytes_; }

  uint32_t size() const { return static_cast<uint32_t>(shards_.size()); }

  /// Sum of the lives of the shards that have chunks: what StepDone.lives of a step is that none of
  /// them has lost.
  uint64_t lives() const { return lives_; }

  std::vector<Shard>& all() { return shards_; }

  const std::vector<Shard>& all() const { return shards_; }

  const ServerStarts& starts() const { return starts_; }

  /// As those of ServerStarts, and the records say so. `begin`: when the job's age was 0.
  TimePoint PlanStart(uint32_t server, std::string why, TimePoint now, TimePoint begin);
  void CancelStart(uint32_t server);
  std::vector<uint32_t> TakeDueStarts(TimePoint now, Random* random);

  /// By the records of another coordinator.
  void RecallStarts(TimePoint now, TimePoint begin, Random* random);

  void NoteWorked(uint32_t server) { starts_.NoteWorked(server); }

  /// "shard 1 of server 0 (not registered)", ...: those that are not ready.
  std::string Missing(TimePoint now) const;
  static proto::ShardAddress AddressOf(const Shard& shard);
  /// But for those that have none yet: they have no chunks either.
  std::vector<proto::ShardAddress> Addresses() const;

 private:
  void SetStartDue(uint32_t server, Duration due);

  std::vector<ShardRecord>* const records_;
  TouchedRows* const touched_;
  const uint32_t shards_per_server_;
  std::vector<Shard> shards_;
  ServerStarts starts_;
  std::map<proto::PeerId, ShardId> peers_;
  size_t ready_ = 0;
  uint64_t lives_ = 0;
  uint64_t largest_bytes_ = 0;
};

}  // namespace ps::coordinator
