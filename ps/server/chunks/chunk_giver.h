#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/logger.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/server/applied_steps.h"
#include "ps/server/call.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/chunks/reindexing.h"
#include "ps/server/life.h"
#include "ps/server/lr_schedule.h"
#include "ps/server/pull_queue.h"
#include "ps/server/roster.h"
#include "ps/server/rounds.h"
#include "ps/server/staging.h"

namespace ps::server {

/// How a shard reaches another one, by its shell.
class ShardDialer {
 public:
  virtual ~ShardDialer() = default;
  /// Connects, and tries until it has, or the next call. ShardCore::OnDialed follows, never from
  /// inside. An earlier attempt is given up.
  virtual void Dial(const proto::ShardAddress& to) = 0;
};

/// Chunks that move to another shard while training goes on. ChunkTaker is the other end.
///
/// Invariants:
/// - A chunk that is given stays as it is: pushes of it are left out, and no step that needs it
///   completes here. When the other shard has it, with what it has of each worker's steps, this one
///   forgets it, and the steps that need no more are complete. So at any time the steps of a chunk
///   are counted by one shard at least, and are changed by one at most.
/// - bsp: no round begins meanwhile, and answers to pulls wait until the chunks are sent, for a
///   quarter of a round at most.
///
/// A worker that pushes to where a chunk was learns from the answer's placement that it has to ask
/// where that is now.
class ChunkGiver {
 public:
  /// All outlive it. `dialer` null: it gives none.
  ChunkGiver(
      const Life& life,
      ChunkStore& store,
      const Roster& roster,
      const Staging& staging,
      const Rounds& rounds,
      const LrSchedule& schedule,
      AppliedSteps& steps,
      PullQueue& pulls,
      proto::ShardStats& counters,
      ShardDialer* dialer,
      const Logger& log);

  /// The coordinator's order.
  void OnGiveChunks(const Call& call, const proto::GiveChunks& order);
  /// The connection stands that the dialer was asked for.
  void OnDialed(ShardId to, proto::PeerId peer, TimePoint now, proto::Outbox* out);

  /// Whether the peer is a shard that gets chunks, or got them.
  bool IsReceiver(proto::PeerId peer) const;
  /// From such a peer. TakeAway may have something to do afterwards.
  void OnReceiver(const Call& call, const proto::Message& message);
  void OnDrained(proto::PeerId peer, proto::Outbox* out);
  void OnPeerClosed(proto::PeerId peer, TimePoint now);
  void OnTick(TimePoint now, proto::Outbox* out);
  /// bsp: a round begins now. How long answers may wait in it follows from how long the last one
  /// took: a pause that is short beside a round on a slow link is long where memory is the link.
  void OnRound(TimePoint now);

  /// Chunks are on their way.
  bool is_giving() const { return giving_.has_value(); }

  /// Forgets the chunks once the other shard has them, and this one knows the membership that the
  /// other one knew: of who is fenced by it, each has said what it has with the chunks or without,
  /// and one of them with. Nothing when that is not so, or there are none.
  std::optional<Reindexing> TakeAway(TimePoint now);

  /// The placement of the newest chunks that left.
  uint64_t given_version() const { return given_version_; }

  void CloseAll(proto::Outbox* out);
  /// At the end of a life.
  void Reset();

 private:
  /// Chunks on their way.
  struct Giving {
    proto::GiveChunks order;
    proto::PeerId peer;                // none: not connected
    TimePoint next_try{};              // to connect or to offer again; none: it is being connected
    std::optional<size_t> next_chunk;  // of the order, that is to be sent; none: nothing is offered
    uint32_t next_part = 0;
    size_t next_buffer = 0;
    std::vector<proto::StagedStep> staged;           // of the offer
    std::vector<std::vector<StagedPart>> gradients;  // by staged step and part of all chunks
    std::optional<Generation> taken;  // the other shard has them, and knew this membership then
    TimePoint offered_at{};
    bool goes_first = false;  // answers to pulls wait until all of it is sent
  };

  /// A shard that got chunks, and is likely to get more at once: its connection is kept meanwhile.
  struct Receiver {
    proto::ShardAddress address;
    proto::PeerId peer;
    TimePoint close_at{};
  };

  Status Check(const proto::GiveChunks& order) const;
  void Offer(TimePoint now, proto::Outbox* out);
  uint64_t OfferChunks(proto::ChunksOffer* offer) const;
  static void OfferSamples(const Member& member, proto::ChunksOffer* offer);
  uint64_t OfferStaged(proto::ChunksOffer* offer);
  void Continue(proto::Outbox* out);
  std::optional<proto::ChunkPart> NextPart();
  void EndPrecedence(TimePoint now);
  /// Not all of what was offered has been sent.
  bool IsLeaving(const proto::Outbox& out) const;
  void HoldPulls();

  const Life& life_;
  ChunkStore& store_;
  const Roster& roster_;
  const Staging& staging_;
  const Rounds& rounds_;
  const LrSchedule& schedule_;
  AppliedSteps& steps_;
  PullQueue& pulls_;
  proto::ShardStats& counters_;
  ShardDialer* const dialer_;
  const Logger& log_;

  uint64_t given_version_ = 0;
  std::optional<Giving> giving_;
  std::vector<Receiver> receivers_;  // not of giving_
  uint64_t last_offer_id_ = 0;
  TimePoint round_since_{};      // when the open round began; none: not in this life
  Duration answers_may_wait_{};  // in that round
};

}  // namespace ps::server
