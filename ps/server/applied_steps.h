#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "ps/base/ids.h"
#include "ps/proto/messages.h"
#include "ps/proto/state/shard_state.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/chunks/reindexing.h"
#include "ps/server/roster.h"
#include "ps/server/rounds.h"
#include "ps/server/staging.h"

namespace ps::server {

/// What an offer of chunks says of each member, found without looking at the others: there may be
/// as many as there are seats.
class OfferedSteps {
 public:
  /// `store` has the chunks by now. Both outlive it.
  OfferedSteps(const proto::ChunksOffer& offer, const ChunkStore& store);

  /// One that is not named has joined since, and has done nothing in these chunks.
  proto::OfferedMember Of(Incarnation incarnation) const;

  /// The chunks that have come, by index.
  const std::vector<size_t>& come() const { return come_; }

  bool HasCome(size_t index) const { return has_come_[index]; }

  /// Those among them that have the member's step after its last one.
  const std::vector<size_t>& AheadOf(Incarnation incarnation) const;

 private:
  std::map<Incarnation, const proto::OfferedMember*> members_;
  std::vector<size_t> come_;
  std::vector<bool> has_come_;
  std::map<Incarnation, std::vector<size_t>> ahead_;
  const std::vector<size_t> none_;
};

/// Which chunks have which of each member's steps, whatever happens to the chunks: they are
/// restored, come, stay and go. The record itself is in Member: last_step, intake, restored.
///
/// Invariant: a chunk has a step once. A worker makes one step after the other, so a chunk is at
/// most one step behind the others of its shard, or ahead of them.
class AppliedSteps {
 public:
  /// All outlive it.
  AppliedSteps(const ChunkStore& store, Roster& roster, Staging& staging, const Rounds& rounds)
      : store_(store), roster_(roster), staging_(staging), rounds_(rounds) {}

  /// All of the member's step has come for this chunk, be it applied, staged or left out.
  bool HasStep(Incarnation incarnation, Step step, ChunkKey key) const;
  /// bsp: all of the member's step in the chunk waits here for its round.
  bool IsStaged(const Member& member, Step step, const Chunk& chunk) const;

  /// For a checkpoint: what the parameters have of each member's steps.
  std::vector<proto::MemberSteps> Saved() const;
  /// A life begins: what the coordinator has counted, and what the parameters have beyond that.
  void Restore(
      const std::vector<proto::CountedStep>& counted, const std::vector<proto::MemberSteps>& saved);

  /// For another shard: which of these chunks have the member's step that is under way.
  std::vector<bool> AheadIn(const std::vector<size_t>& indices, const Member& member) const;
  /// The chunk leaves: parts of steps that are not whole here come to the other shard anew.
  void ForgetUnfinished(size_t index);
  /// Chunks have come, with what others have of the members' steps. `was_empty`: there were none.
  void Take(const OfferedSteps& offer, bool was_empty);
  /// bsp: the member's last step is complete with what came from elsewhere. What was not finite
  /// there was not staged.
  void SettleStaged(Member* member);

  /// A round begins: what was left out of it while it was still coming in is void.
  void DropOpenSteps();
  /// Chunks have come or gone: all here that goes by the index of a chunk. Of one that has come
  /// nothing is here.
  void Reindex(const Reindexing& chunks);

 private:
  std::vector<ChunkKey> AppliedOf(const Member& member) const;
  void TakeSome(const OfferedSteps& offer, Member* member);
  void TakeAll(const OfferedSteps& offer, Member* member);
  void Recount(Intake* intake) const;
  void Reindex(const Reindexing& chunks, Intake* intake) const;

  const ChunkStore& store_;
  Roster& roster_;
  Staging& staging_;
  const Rounds& rounds_;
};

}  // namespace ps::server
