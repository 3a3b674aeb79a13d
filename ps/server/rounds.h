#pragma once

#include <cstdint>
#include <optional>

#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/server/call.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/life.h"
#include "ps/server/lr_schedule.h"
#include "ps/server/round_commit.h"
#include "ps/server/staging.h"

namespace ps::server {

/// The mode in force, and bsp's rounds: which contributions make one, and how far its update is.
///
/// Invariants:
/// - Rounds are committed in order, each once, of contributions that are complete here.
/// - A round counts from Begin on: what comes for it is too late, and nobody may see parameters
///   until Continue has returned true.
class Rounds {
 public:
  /// All outlive it.
  Rounds(
      const Life& life,
      ChunkStore& store,
      Staging& staging,
      LrSchedule& schedule,
      proto::ShardStats& counters,
      const Logger& log);

  /// At the end of a life.
  void Reset();

  /// The life begins from parameters of this round.
  void Restore(uint64_t round) { newest_ = round; }

  const proto::ModeChoice& mode() const { return mode_; }

  bool is_bsp() const { return mode_.mode == proto::Mode::kBsp; }

  bool is_ssp() const { return mode_.mode == proto::Mode::kSsp; }

  /// The last one whose commit has begun.
  uint64_t newest() const { return newest_; }

  /// The last one that is in the parameters.
  uint64_t committed() const { return commit_ ? newest_ - 1 : newest_; }

  bool is_committing() const { return commit_.has_value(); }

  /// Memory of gradients that wait for their round, or for their turn in its update.
  uint64_t staged_bytes() const { return staging_.bytes() + (commit_ ? commit_->bytes() : 0); }

  /// The mode of a membership, from now on. Requires: nobody has a train lease, so no step is under
  /// way, no round is open, and the last one was committed here. Returns whether it is another one.
  bool TakeMode(const proto::Membership& membership, size_t members);

  /// bsp keeps a contribution of every member until all of them are in: warns when they have no
  /// room, since the job stands still then.
  void WarnIfTooSmall(size_t members) const;

  enum class Admission : uint8_t { kAnswered, kUnderWay, kBegins };

  /// Refuses the commit, or says that it has been made. Otherwise its end is told to this caller:
  /// kUnderWay, or the round is to begin. `are_chunks_leaving`: none may begin.
  Admission Admit(const Call& call, const proto::CommitRound& commit, bool are_chunks_leaving);
  /// Takes the contributions. Requires: admitted, and no answer to a pull is under way.
  void Begin(const proto::CommitRound& commit);
  /// Makes a slice of the update. Returns true when it was the last one.
  bool Continue();
  /// Tells the newest caller of Admit that the round is in the parameters.
  void Acknowledge(proto::Outbox* out);

  void OnCoordinatorClosed() { peer_ = proto::PeerId(); }

 private:
  Status Check(const proto::CommitRound& commit) const;
  Status CheckContribution(
      const proto::CommitRound& commit, const proto::CommitRound::Contribution& c) const;

  const Life& life_;
  ChunkStore& store_;
  Staging& staging_;
  LrSchedule& schedule_;
  proto::ShardStats& counters_;
  const Logger& log_;

  proto::ModeChoice mode_;
  uint64_t newest_ = 0;
  std::optional<RoundCommit> commit_;  // of newest_, while it is under way
  proto::PeerId peer_;                 // who is told of its end; nobody: its connection is gone
  uint64_t request_id_ = 0;
};

}  // namespace ps::server
