#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/proto/messages.h"

namespace ps::coordinator {

/// The rounds of bsp. One round is open at any time: round committed() + 1. An incarnation enters
/// it with its lease, and then either contributes one step or leaves. When all who entered have
/// done so, and somebody contributed, the round can be committed. If all of them left, the round
/// stays open under its number for whoever enters next: an empty round is never committed, only one
/// whose contributions were all rejected commits without any.
class Rounds {
 public:
  uint64_t open_round() const { return committed_ + 1; }

  /// The newest round whose commit was decided.
  uint64_t committed() const { return committed_; }

  /// Requires: it is not in the open round.
  void Enter(WorkerId worker, Incarnation incarnation);
  /// Its step is staged on every shard. Requires: it entered and has not contributed.
  void Contribute(Incarnation incarnation, Step step, uint32_t samples, bool is_rejected);
  /// It will not contribute (any more). Nothing happens when it is not in, or has contributed.
  void Leave(Incarnation incarnation);

  bool Contains(Incarnation incarnation) const { return entries_.contains(incarnation); }

  bool HasContributed(Incarnation incarnation) const;

  bool is_empty() const { return entries_.empty(); }

  /// Everybody who entered has contributed, and somebody did.
  bool is_settled() const;

  /// Commits the open round and opens the next. Requires: is_settled(), is_commit_acknowledged().
  void Commit();

  /// The newest commit, until every shard has acknowledged it.
  const std::optional<proto::CommitRound>& commit() const { return commit_; }

  bool is_commit_acknowledged() const { return !commit_.has_value(); }

  bool HasAcknowledged(ShardId shard) const { return acks_.contains(shard); }

  /// Returns true when it was the last one. Errors: kInvalidArgument (a round of the future).
  Result<bool> OnAck(const proto::CommitAck& ack, uint32_t shard_count);

  struct Entry {
    WorkerId worker;
    bool has_contributed = false;
    Step step = 0;
    uint32_t samples = 0;
    bool is_rejected = false;
  };

  const std::map<Incarnation, Entry>& entries() const { return entries_; }

 private:
  uint64_t committed_ = 0;
  std::map<Incarnation, Entry> entries_;
  std::optional<proto::CommitRound> commit_;
  std::set<ShardId> acks_;
};

}  // namespace ps::coordinator
