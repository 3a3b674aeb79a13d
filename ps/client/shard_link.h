#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ps/base/random.h"
#include "ps/base/retry.h"
#include "ps/client/chunk_layout.h"
#include "ps/client/gradient_loan.h"
#include "ps/client/pull_intake.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/proto/timing.h"

namespace ps::client {

/// What a push says about its step, the same on every shard.
struct PushJob {
  Step step = 0;
  LeaseId lease;
  uint64_t round = 0;
  uint32_t samples = 0;
  uint32_t local_steps = 1;  // of the job, when it was leased
  /// Held until EndPush. Frames own it too, so that a transport which can't send at once need not
  /// copy it.
  GradientLoan gradient;
  bool wants_pull = false;
};

/// A worker's dealings with one shard: at most one push and one pull at a time, sent again until
/// they are answered. Gradients leave as they become ready, small chunks together in frames, large
/// ones in parts.
class ShardLink {
 public:
  struct Identity {
    WorkerId worker;
    Incarnation incarnation;
  };

  /// `layout` and `random` outlive the link.
  ShardLink(
      ShardId shard,
      Identity identity,
      const ChunkLayout* layout,
      size_t frame_bytes,
      const proto::Timing& timing,
      Random* random);

  /// A connection is open: unanswered requests are sent again.
  void OnConnected(proto::PeerId peer, TimePoint now, proto::Outbox* out);

  void OnDisconnected() { peer_ = proto::PeerId(); }

  proto::PeerId peer() const { return peer_; }

  ShardId shard() const { return shard_; }

  bool has_chunks() const { return !chunks().empty(); }

  /// A chunk on its way from one link to another.
  struct Leaving {
    ChunkLayout::Chunk chunk;
    bool is_ready = false;    // the gradient of the step under way has its final value
    bool is_done = false;     // the shard has acknowledged the step with the chunk
    bool needs_pull = false;  // its values may not be among those that the shard has sent
    bool is_evaluation = false;
    Step pulled_step = 0;
    uint64_t min_round = 0;  // that its values are to have
  };

  /// The chunk is elsewhere since a placement newer than `known`.
  Leaving Remove(ChunkKey key, uint64_t known);
  /// The chunk is here now. `is_travelling`: the job of the newest BeginPush is not done on every
  /// shard.
  void Add(const Leaving& leaving, bool is_travelling);
  /// After these: goes on with the push and the pull. `placement` is known now.
  void AfterMove(uint64_t placement, TimePoint now, proto::Outbox* out);

  /// The placement that requests name from now on.
  void SetPlacement(uint64_t placement) { placement_ = placement; }

  /// The newest placement by which the shard has acknowledged the newest push, or answered the
  /// newest pull. Its answers are about the chunks that it has by that.
  uint64_t seen_placement() const { return std::max(pushed_placement_, pulled_placement_); }

  /// Values to train with are asked for in this encoding from now on.
  void SetPullEncoding(const codec::Encoding& encoding) { pull_encoding_ = encoding; }

  /// Gradients travel as the layout has them. Requires: no push is under way.
  void TakeEncodings(const ChunkLayout& layout) { intake_.TakeEncodings(layout); }

  /// Requires: the previous push is done.
  void BeginPush(const PushJob& job);
  /// Every chunk of `tensor` in the job's gradient has its final value.
  void TensorReady(uint32_t tensor, TimePoint now, proto::Outbox* out);

  /// The push is done on every shard: its gradient is given back.
  void EndPush() { job_.gradient.reset(); }

  bool is_push_done() const { return !is_pushing_; }

  bool is_push_rejected() const { return is_rejected_; }

  /// The shard's life in which it has acknowledged the newest push; 0: it has no chunks.
  uint64_t pushed_life() const { return pushed_life_; }

  /// Asks for values newer than those held. Replaces a pull under way.
  void BeginPull(uint64_t min_round, bool is_evaluation, TimePoint now, proto::Outbox* out);

  /// True when the newest pull has been answered in full.
  bool is_pull_done() const { return !is_pulling_; }

  /// A pull is under way, and nothing of its answer has come.
  bool is_pull_held() const { return is_pulling_ && seen_count_ == 0; }

  uint64_t pulled_round() const { return pulled_round_; }

  /// The newest of this worker's steps that is in the values held.
  Step pulled_step() const { return chunks().empty() ? job_.step : pulled_step_; }

  TimePoint waiting_since() const { return waiting_since_; }

  /// True when the push it answers is now done.
  bool OnPushReply(
      uint64_t request_id, const proto::PushReply& reply, TimePoint now, proto::Outbox* out);

  /// Takes note of versions; the caller hands on what is fresh. Errors:
  /// kInvalidArgument when the reply does not fit the layout.
  Result<std::vector<PullIntake::Fresh>> OnPullReply(
      uint64_t request_id, const proto::PullReply& reply, TimePoint now);
  /// The shard could not serve the push or the pull yet: try again after the delay that it asks
  /// for.
  void OnRetryLater(uint32_t retry_after_ms, TimePoint now);

  void OnTick(TimePoint now, proto::Outbox* out);

  uint64_t bytes_pushed() const { return bytes_pushed_; }

  uint64_t bytes_pulled() const { return bytes_pulled_; }

  uint64_t retries() const { return retries_; }

 private:
  enum class ChunkState : uint8_t { kNotReady, kReady, kSent };

  /// A chunk, or a part of one, of a frame.
  struct Piece {
    size_t chunk = 0;
    uint32_t part = 0;
  };

  /// Chunks of one encoding that will leave together.
  struct OpenFrame {
    std::vector<Piece> pieces;
    size_t bytes = 0;
  };

  const std::vector<ChunkLayout::Chunk>& chunks() const { return intake_.chunks(); }

  void SetRetries();
  void SendReady(bool is_flush, TimePoint now, proto::Outbox* out);
  void SendFrame(std::span<const Piece> pieces, proto::Outbox* out);
  void SendAgain(TimePoint now, proto::Outbox* out);
  void SendPull(proto::Outbox* out);
  void ExpectPull(uint64_t request_id);

  // Constant after construction.
  const ShardId shard_;
  const Identity identity_;
  const size_t frame_bytes_;
  const proto::ChunkParts parts_;
  const proto::Timing timing_;
  Random* const random_;

  proto::PeerId peer_;
  uint64_t last_request_id_ = 0;
  uint64_t placement_ = 0;  // the newest that the worker knows
  bool must_push_ = false;  // AfterMove: there are chunks to be sent
  bool must_pull_ = false;  // and to be asked for

  // The push.
  PushJob job_;
  bool is_pushing_ = false;
  bool is_rejected_ = false;
  uint64_t pushed_life_ = 0;
  uint64_t pushed_placement_ = 0;
  uint64_t push_request_id_ = 0;
  uint64_t push_answer_min_ = 0;       // the first request whose answer holds for all chunks
  bool must_pull_after_push_ = false;  // a chunk came that the fused answer may lack
  std::vector<ChunkState> states_;
  RetryTimer push_retry_;

  // The pull.
  bool is_pulling_ = false;
  bool is_evaluation_ = false;
  codec::Encoding pull_encoding_;
  uint64_t min_round_ = 0;
  uint64_t pulled_round_ = 0;
  uint64_t pulled_placement_ = 0;
  uint64_t pull_request_id_ = 0;
  PullIntake intake_;
  uint64_t seen_count_ = 0;  // chunks of this answer that have come
  bool lacks_base_ = false;  // it is not complete without being asked for again
  Step pulled_step_ = 0;
  // An answer that is still to come although the next push has begun.
  uint64_t late_request_id_ = 0;
  Step late_step_ = 0;
  uint64_t late_count_ = 0;  // chunks of it that have come
  TimePoint waiting_since_{};
  RetryTimer pull_retry_;

  uint64_t bytes_pushed_ = 0;
  uint64_t bytes_pulled_ = 0;
  uint64_t retries_ = 0;
};

}  // namespace ps::client
