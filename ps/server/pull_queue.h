#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/codec/encoding.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/server/call.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/chunks/reindexing.h"
#include "ps/server/held_values.h"
#include "ps/server/life.h"
#include "ps/server/roster.h"
#include "ps/server/rounds.h"

namespace ps::server {

/// Pulls: answered at once, or held until the mode allows it. Which chunks an answer has is decided
/// when it begins: those newer than what the worker holds. Their values are read, straight from
/// their memory, as each frame leaves, so a chunk (of a large one: a part) may be newer than when
/// the answer began, never older. A frame follows when the one before it has left: an answer takes
/// a frame's memory, not a model's.
///
/// Invariants:
/// - bsp: an answer has chunks of one round only. ssp: it begins only while its worker's lead is
///   within the bound.
/// - Each member has at most one pull that waits or is being answered, the newest.
/// - Where the job says so, a chunk that the member holds goes as a difference to that
/// (HeldValues).
class PullQueue {
 public:
  /// Buckets of ShardStats::staleness_histogram; the last one counts that lead and longer ones.
  static constexpr size_t kStalenessBuckets = 17;

  /// All outlive it.
  PullQueue(
      const Life& life,
      const ChunkStore& store,
      Roster& roster,
      const Rounds& rounds,
      proto::ShardStats& counters);

  void OnPull(const Call& call, proto::PullRequest& pull);
  /// From the coordinator, for the model: of no worker, and never answered while a round is being
  /// committed. A newer pull takes the place of an older one and of its answer.
  void OnModelPull(const Call& call, proto::PullRequest& pull);
  /// The step of a push that asks for values is complete. Ignored when a newer pull has overtaken
  /// it.
  void Start(const Member& member, Pull pull, TimePoint now, proto::Outbox* out);

  /// A push of the member asks for the values after its step: those of its pulls that are older
  /// are overtaken from now on. False when this one is.
  bool Expect(Incarnation incarnation, uint64_t request_id);
  /// Errors: kInvalidArgument when a held chunk was never here.
  Status CheckHeld(const std::vector<proto::ChunkVersion>& held, uint64_t placement) const;

  /// A step, a round or a membership is over that pulls may have waited for.
  void Release(proto::Outbox* out);
  /// Sends all that is under way: what comes next must not be in it.
  void FinishAnswers(proto::Outbox* out);

  /// No answer goes on while it is held; what Continue is for afterwards.
  void Hold(bool is_held) { is_held_ = is_held; }

  void Continue(proto::Outbox* out);
  /// The peer takes more.
  void OnDrained(proto::PeerId peer, proto::Outbox* out);

  void OnPeerClosed(proto::PeerId peer);
  /// The coordinator's pull is void.
  void DropModelPull();
  /// The member is gone. Returns the pull of it that was held back.
  std::optional<Pull> Forget(Incarnation incarnation);
  /// Chunks have come or gone.
  void Reindex(const Reindexing& chunks);
  /// At the end of a life.
  void Reset();

  /// How many steps were made by all since the parameters were read that this member's pushes are
  /// computed from: those of the last answer, or of so many answers before it.
  uint64_t MissedSteps(Incarnation incarnation, size_t answers_behind) const;
  std::vector<proto::Wait> Waits(TimePoint now) const;

  const HeldValues& held_values() const { return held_values_; }

 private:
  /// A chunk of an answer.
  struct Entry {
    uint32_t chunk = 0;      // its index
    bool is_listed = false;  // the pull says that the worker holds it, at an older version
  };

  /// A pull's answer that is leaving, frame by frame, as fast as the worker takes it.
  struct PullAnswer {
    proto::PeerId peer;
    uint64_t request_id = 0;
    uint64_t staleness_steps = 0;
    codec::Encoding encoding;
    Incarnation incarnation;    // none: the coordinator
    bool is_followed = false;   // by HeldValues
    std::vector<Entry> chunks;  // fixed when the answer began, less those that left
    uint32_t total = 0;         // when it began: the worker has counted those that left
    size_t next = 0;            // the first of them that was not sent in full
    uint32_t next_part = 0;     // the first part of it that was not sent

    /// False when a chunk that has gone was still to be sent: who asked asks again when it knows.
    bool Reindex(const Reindexing& chunks);
  };

  /// What is remembered of a member's pulls.
  struct State {
    std::optional<Pull> waiting;       // held back
    std::optional<PullAnswer> answer;  // under way
    uint64_t newest_id = 0;  // request ids of an incarnation grow; older pulls were overtaken
    // Steps of all that the shard had when it began to answer the last pulls for training, newest
    // first; as many as are needed to know what a push was computed from.
    std::array<uint64_t, 2> read_at{};
    uint32_t reads = 0;
  };

  using States = std::map<Incarnation, State>;

  /// A chunk or a part of one in the frame in hand.
  struct Piece {
    size_t entry = 0;  // of the answer
    uint32_t part = 0;
    proto::PullReply::Chunk header;
    std::span<const float> values;
  };

  Status Take(const Call& call, proto::PullRequest& pull);
  bool IsOfAnUnknownRound(const Pull& pull) const;
  bool MayAnswer(const Member& member, const Pull& pull) const;
  PullAnswer MakeAnswer(const Pull& pull);
  void BeginAnswer(const Member& member, const Pull& pull, proto::Outbox* out);
  void ContinueAnswer(Incarnation incarnation, bool is_urgent, proto::Outbox* out);
  void ContinueModel(bool is_urgent, proto::Outbox* out);
  void EndAnswer(States::value_type* entry);
  /// Sends frames until the peer is backlogged or, with `is_urgent`, until all have been sent.
  /// Returns whether they have.
  bool Send(PullAnswer* answer, bool is_urgent, proto::Outbox* out);
  void SendFrame(PullAnswer* answer, proto::Outbox* out);
  HeldValues::Form FormOf(const PullAnswer& answer, const Entry& entry, uint32_t part) const;
  uint64_t TakePieces(PullAnswer* answer, codec::Encoding* encoding);
  size_t EncodeFollowed(const PullAnswer& answer, uint64_t number, Buffer* bytes);
  std::string WaitsFor(const Member& member, const Pull& pull) const;

  const Life& life_;
  const ChunkStore& store_;
  Roster& roster_;
  const Rounds& rounds_;
  proto::ShardStats& counters_;

  States states_;                                              // of members that have pulled
  std::set<std::pair<proto::PeerId, Incarnation>> answering_;  // those with an answer under way
  std::optional<Pull> model_pull_;          // of the coordinator; waits for the commit under way
  std::optional<PullAnswer> model_answer_;  // to the coordinator, under way
  bool is_held_ = false;
  HeldValues held_values_;
  std::vector<std::optional<Version>> held_;  // scratch
  std::vector<Piece> pieces_;                 // likewise
};

}  // namespace ps::server
