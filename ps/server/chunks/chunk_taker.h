#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/server/applied_steps.h"
#include "ps/server/call.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/chunks/reindexing.h"
#include "ps/server/life.h"
#include "ps/server/lr_schedule.h"
#include "ps/server/roster.h"
#include "ps/server/rounds.h"
#include "ps/server/staging.h"

namespace ps::server {

/// Chunks that come from another shard while training goes on. ChunkGiver is the other end.
///
/// Invariants:
/// - Nothing changes here until all parts of an offer have come; then all of it is taken at once.
/// - What is staged of a chunk, and what it has of each member's steps, comes with it.
/// - One offer at a time: a newer one takes the place of what has come, and a connection that
/// closes
///   ends its offer.
class ChunkTaker {
 public:
  /// All outlive it.
  ChunkTaker(
      const Life& life,
      ChunkStore& store,
      Roster& roster,
      Staging& staging,
      const Rounds& rounds,
      LrSchedule& schedule,
      AppliedSteps& steps,
      proto::ShardStats& counters,
      const Logger& log);

  void OnOffer(const Call& call, proto::ChunksOffer& offer);
  /// Returns true when all of the offer is here: Insert and Finish follow.
  bool OnPart(const Call& call, proto::ChunkPart& part);
  /// Puts the chunks into the store.
  Reindexing Insert();
  /// Takes what comes with them, and says so. Requires: after Insert, and all that goes by the
  /// index of a chunk goes by the new ones.
  void Finish(proto::Outbox* out);

  void OnPeerClosed(proto::PeerId peer);
  /// At the end of a life.
  void Reset();

 private:
  /// Chunks on their way.
  struct Taking {
    proto::PeerId peer;
    uint64_t request_id = 0;  // of the offer
    proto::ChunksOffer offer;
    std::vector<Chunk> chunks;  // of the offer
    /// By staged step: of each of its chunks the parts.
    std::vector<std::map<ChunkKey, std::vector<StagedPart>>> gradients;
    std::vector<bool> has_come;  // by part of these chunks and buffer
    size_t parts_left = 0;
    bool was_empty = false;  // Insert: there were no chunks here

    size_t buffers_max() const { return kBuffersMax + offer.staged.size(); }

    bool IsSame(const proto::ChunksOffer& other) const;
    /// Makes room for the gradients that come with the chunks, at most `bytes_max` of them.
    Status MakeRoom(const std::vector<proto::StagedStep>& staged, uint64_t bytes_max);
    /// Whether a part of this buffer of the chunk was offered.
    bool IsOffered(uint32_t buffer, const Chunk& chunk) const;
    /// Part `number` of the chunk, which is `elements` of it. Requires: it was offered.
    void Take(
        proto::ChunkPart& part, const proto::ChunkRef& elements, uint32_t number, Chunk* chunk);
  };

  Status Check(const proto::ChunksOffer& offer) const;
  Status CheckStaged(const proto::ChunksOffer& offer) const;
  Result<Taking> Begin(const proto::ChunksOffer& offer) const;
  void TakeStaged();
  void TakeProgress();

  const Life& life_;
  ChunkStore& store_;
  Roster& roster_;
  Staging& staging_;
  const Rounds& rounds_;
  LrSchedule& schedule_;
  AppliedSteps& steps_;
  proto::ShardStats& counters_;
  const Logger& log_;

  uint64_t taken_version_ = 0;  // the placement of the newest chunks that came
  std::optional<Taking> taking_;
};

}  // namespace ps::server
