#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/base/status.h"
#include "ps/client/chunk_layout.h"
#include "ps/client/session.h"
#include "ps/client/shard_link.h"
#include "ps/client/worker_host.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

namespace ps::client {

/// The shards of the job as one worker sees them: where each is, which chunks it has, and the push
/// and the pull that go to all of them.
///
/// Invariants:
/// - There is a link to each shard that has chunks. A placement is known to all of them at once.
/// - A push or a pull is done when every shard has answered it, and nobody has said since that
///   chunks are elsewhere than this worker knows.
class ShardLinks {
 public:
  /// All outlive it.
  ShardLinks(const Session& session, WorkerHost& host, Random& random, const Logger& log)
      : session_(session), host_(host), random_(random), log_(log) {}

  const ChunkLayout& layout() const { return layout_; }

  void SetLayout(ChunkLayout layout) { layout_ = std::move(layout); }

  /// Values to train with are asked for in this encoding from now on.
  void SetPullEncoding(const codec::Encoding& encoding);
  /// The gradient of each tensor travels in its encoding. Requires: no push is under way.
  void SetPushEncodings(std::span<const codec::Encoding> encodings);

  /// The placement that the layout is of.
  uint64_t placement() const { return placement_; }

  void SetPlacement(uint64_t placement) { placement_ = placement; }

  /// The session begins: connects to these shards.
  void Connect(const std::vector<proto::ShardAddress>& shards);
  void CloseAll(proto::Outbox* out);
  /// At the end of a session.
  void Reset();

  /// False when no such shard is the job's.
  bool OnConnected(ShardId shard, proto::PeerId peer, TimePoint now, proto::Outbox* out);
  /// Null when the peer is none of them.
  ShardLink* Of(proto::PeerId peer);
  /// A shard that came back as another process is elsewhere: what it had not answered is sent
  /// again. Chunks have moved, perhaps: pushes and pulls that are under way go on where they are
  /// now. Errors: kInvalidArgument.
  Status OnAddresses(const proto::ShardAddresses& message, TimePoint now, proto::Outbox* out);
  void OnTick(TimePoint now, proto::Outbox* out);

  /// What a shard has said holds for the chunks that this worker takes for its own.
  bool IsUpToDate(const ShardLink& link) const { return link.seen_placement() <= placement_; }

  /// Requires: no push is under way.
  void BeginPush(const PushJob& job);
  void TensorReady(uint32_t tensor, TimePoint now, proto::Outbox* out);

  /// What the shards have answered to a push.
  struct Pushed {
    bool is_rejected = false;  // by one of them
    uint64_t lives = 0;        // the sum of theirs
  };

  /// Nothing until all of them have.
  std::optional<Pushed> AnswerToPush() const;
  /// The gradient is given back. Requires: all have answered.
  void EndPush();

  void BeginPull(uint64_t min_round, bool is_evaluation, TimePoint now, proto::Outbox* out);
  bool are_pulls_done() const;
  /// Pulls are under way, and nothing of an answer has come.
  bool are_pulls_held() const;
  /// Whether a pull that is over has brought values of an earlier round than this.
  bool HasPulledBefore(uint64_t round) const;
  /// Whether the values held of each shard follow this step of the worker, or a later one.
  bool HavePulledStep(Step step) const;

  /// All pushes, repeated ones included.
  uint64_t bytes_pushed() const;
  void AddTo(proto::WorkerStats* stats) const;
  /// `is_computing`: then nobody waits for answers.
  void AddWaits(
      const std::string& me,
      bool is_computing,
      TimePoint now,
      std::vector<proto::Wait>* waits) const;

 private:
  void Add(const proto::ShardAddress& address);
  void MoveTo(const proto::ShardAddress& address, proto::Outbox* out);
  Status TakePlacement(const proto::ShardAddresses& message, TimePoint now, proto::Outbox* out);
  void Forget(const proto::ShardAddresses& message, proto::Outbox* out);

  const Session& session_;
  WorkerHost& host_;
  Random& random_;
  const Logger& log_;

  ChunkLayout layout_;
  codec::Encoding pull_encoding_;
  uint64_t placement_ = 0;
  std::map<ShardId, std::unique_ptr<ShardLink>> links_;
  std::map<ShardId, proto::ShardAddress> addresses_;  // where each was last
  uint64_t forgotten_pushed_ = 0;                     // bytes, by links that are gone
  uint64_t forgotten_pulled_ = 0;
  std::optional<PushJob> push_;  // not done on every shard
};

}  // namespace ps::client
