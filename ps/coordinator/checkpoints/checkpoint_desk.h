#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/retry.h"
#include "ps/coordinator/state/job.h"
#include "ps/coordinator/state/manifest_disk.h"

namespace ps::coordinator {

/// Checkpoints: opens one when it is due, collects what the shards report, commits the manifest.
/// One at a time. What is counted when it is opened was applied on every shard before, so the
/// shards' parts, which are taken later, have all of it.
///
/// While one is open no mode changes, no chunk moves and no server hands over, so each has to end:
/// a shard gives its part up when its disk finishes nothing for a while (Checkpointer), a shard
/// that does not answer is lost, and a manifest that is not written in time is waited for no
/// longer.
class CheckpointDesk {
 public:
  explicit CheckpointDesk(Job* job);

  bool is_on() const { return disk_ != nullptr && job_->options.config.checkpoint.enabled; }

  /// Opens one if it is due. bsp: right after a commit was decided, and only then.
  void OpenIfDue(const Call& call);
  /// Opens one out of turn. Returns its number; 0: not now, since another one is under way or,
  /// where no train lease is granted, steps are.
  uint64_t OpenNow(const Call& call);
  /// Opens one now or, in bsp while a round is open, with its commit.
  void OpenSoon(const Call& call);

  /// One that has all that is counted now and no more; it is opened if need be. 0: not now.
  uint64_t CheckpointOfNow(const Call& call);

  /// It may yet exist: it is under way, or was given up while its manifest was written.
  bool IsComing(uint64_t checkpoint) const {
    return IsOpen(checkpoint) || late_.contains(checkpoint);
  }

  /// One is to be opened at the next occasion.
  bool IsDue(TimePoint now) const { return is_on() && next_due_ && now >= *next_due_; }

  /// One is under way.
  bool is_open() const { return open_.has_value(); }

  /// It is under way.
  bool IsOpen(uint64_t checkpoint) const { return open_ && open_->checkpoint == checkpoint; }

  /// Opens the last one, when nobody trains any more. Returns whether there is nothing left to wait
  /// for. Called until then.
  bool FinishLast(const Call& call);

  void On(const Call& call, const proto::CheckpointReport& message);
  void OnManifestWritten(uint64_t checkpoint, const Status& status, const Call& call);
  void OnTick(const Call& call);

  /// Gives up the one under way, if there is one. Returns false while a manifest is being written:
  /// then it may exist.
  bool Cancel(const std::string& why);
  /// One that exists can't be restored: it is set aside. Returns what it was; nothing: it was set
  /// aside before.
  std::optional<proto::KeptCheckpoint> GiveUpKept(uint64_t checkpoint, const Status& why);
  /// The job has gone back: what is known of the newest one stays known.
  void Remember(const CheckpointDesk& before);

  proto::CheckpointStatus StatusAt(TimePoint now) const;

 private:
  struct Open {
    uint64_t checkpoint = 0;
    uint64_t round = 0;
    uint64_t steps = 0;    // counted
    uint64_t samples = 0;  // counted
    uint64_t lives = 0;    // of the shards, added up
    TimePoint since{};
    std::vector<std::byte> state;  // of the job, as it was then
    std::map<ShardId, proto::CheckpointReport> reports;
    std::vector<uint64_t> dropped;  // when this one is written
    bool is_writing = false;        // the manifest
    TimePoint writing_since{};
  };

  void Begin(const Call& call);
  void Ask(const Shard& shard, const Call& call) const;
  void Commit(const Call& call);
  void NoteWritten(const Open& written, const Call& call);
  void GiveUp(const std::string& why);
  bool IsChangeWanted() const;
  void MakeWay(const Call& call);
  std::vector<uint64_t> Droppable() const;
  proto::CheckpointSizes SizesOf(const Open& open) const;
  Duration Every() const;

  Job* const job_;
  ManifestDisk* const disk_;
  std::optional<Open> open_;
  std::map<uint64_t, Open>
      late_;  // given up while the manifest was being written: it may exist yet
  std::optional<TimePoint> next_due_;
  std::optional<TimePoint> in_the_way_since_;
  bool has_made_way_ = false;
  RetryTimer ask_timer_;
  bool has_tried_last_ = false;
  TimePoint last_deadline_{};
  std::string trouble_;
  proto::CheckpointSizes newest_sizes_;
  // Shards keep the parts of these, too. With the next checkpoint the corrupt ones go.
  std::vector<checkpoint::SetAside> set_aside_;
};

}  // namespace ps::coordinator
