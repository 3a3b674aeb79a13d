#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/coordinator/state/touched_rows.h"
#include "ps/proto/messages.h"
#include "ps/proto/state/job_state.h"

namespace ps::coordinator {

using proto::RoundEntry;
using proto::RoundsState;

/// The rounds of bsp. One round is open at any time: round committed() + 1. An incarnation enters
/// it with its lease, and then either contributes one step or leaves. When all who entered have
/// done so, and somebody contributed, the round can be committed. If all of them left, the round
/// stays open under its number for whoever enters next: an empty round is never committed, only one
/// whose contributions were all rejected commits without any.
class Rounds {
 public:
  /// Works on `state` and marks what it changes; both outlive it.
  Rounds(RoundsState* state, TouchedRows* touched);

  uint64_t open_round() const { return state_->committed + 1; }

  /// The newest round whose commit was decided.
  uint64_t committed() const { return state_->committed; }

  /// The newest round that every shard has applied.
  uint64_t applied() const { return state_->committed - (state_->commit ? 1 : 0); }

  /// Requires: it is not in the open round.
  void Enter(WorkerId worker, Incarnation incarnation);
  /// Its step is staged on every shard. Requires: it entered and has not contributed.
  void Contribute(Incarnation incarnation, Step step, uint32_t samples, bool is_rejected);
  /// It will not contribute (any more). Nothing happens when it is not in, or has contributed.
  void Leave(Incarnation incarnation);

  bool Contains(Incarnation incarnation) const { return state_->entries.contains(incarnation); }

  bool HasContributed(Incarnation incarnation) const;

  bool is_empty() const { return state_->entries.empty(); }

  /// Somebody has contributed to the open round.
  bool has_contributions() const { return contributed_ > 0; }

  /// Everybody who entered has contributed, and somebody did.
  bool is_settled() const { return !is_empty() && contributed_ == state_->entries.size(); }

  /// Commits the open round and opens the next. Requires: is_settled(), is_commit_acknowledged().
  /// `local_steps`: of the steps that were made for it.
  void Commit(uint32_t local_steps);

  /// The parameters have changed otherwise than by rounds: a number without commit stands for what
  /// they are now, so that nobody takes those of the last round for them. Requires: is_empty(),
  /// is_commit_acknowledged().
  void Skip();

  /// The newest commit, until every shard has acknowledged it.
  const std::optional<proto::CommitRound>& commit() const { return state_->commit; }

  bool is_commit_acknowledged() const { return !state_->commit.has_value(); }

  bool HasAcknowledged(ShardId shard) const { return state_->acks.contains(shard); }

  /// Returns true when it was the last one. Errors: kInvalidArgument (a round of the future).
  Result<bool> OnAck(const proto::CommitAck& ack, uint32_t shard_count);

  const std::map<Incarnation, RoundEntry>& entries() const { return state_->entries; }

 private:
  RoundsState* const state_;
  TouchedRows* const touched_;
  size_t contributed_ = 0;  // of the entries
};

/// Whether rounds can be made of a loaded state. Errors: kCorruption naming what is wrong.
Status CheckRoundsState(const RoundsState& state, uint32_t shard_count);

}  // namespace ps::coordinator
