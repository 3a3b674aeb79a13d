// Invariants:
// - A frame is built from the lent gradient when it is sent, so a repeated push carries the same
//   bytes.
// - Every sending of a pull has a request id of its own. Values that answer an older one are used
//   when they are newer than those held, but only the newest id can complete the pull.
// - Held versions only grow within a life of the shard.
// - A difference that lacks its base completes nothing; the pull is asked for again.

#include "ps/client/shard_link.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ps::client {
namespace {

/// 40 Mbit/s. Over a slower link the first wait may be too short; then a repetition waits until
/// what was sent has left, and each waits longer than the one before.
constexpr double kSlowLinkBytesPerSecond = 5e6;
/// Gradients that leave during backward cost the step no time, so they do not wait for a full
/// frame.
constexpr size_t kEarlyFrameBytes = size_t{64} << 10;

std::vector<ChunkLayout::Chunk> ChunksOf(ShardId shard, const ChunkLayout& layout) {
  std::vector<ChunkLayout::Chunk> chunks;
  for (const ChunkLayout::Chunk& chunk : layout.chunks()) {
    if (chunk.shard == shard) {
      chunks.push_back(chunk);
    }
  }
  return chunks;
}

}  // namespace

ShardLink::ShardLink(
    ShardId shard,
    Identity identity,
    const ChunkLayout* layout,
    size_t frame_bytes,
    const proto::Timing& timing,
    Random* random)
    : shard_(shard),
      identity_(identity),
      frame_bytes_(frame_bytes),
      parts_(frame_bytes),
      timing_(timing),
      random_(random),
      intake_(shard, ChunksOf(shard, *layout), frame_bytes) {
  SetRetries();
  states_.assign(chunks().size(), ChunkState::kNotReady);
}

/// How long to wait for an answer, by how much one step sends to the shard at most.
void ShardLink::SetRetries() {
  uint64_t bytes = 0;
  for (const ChunkLayout::Chunk& chunk : chunks()) {
    bytes += uint64_t{chunk.element_count} * sizeof(float);
  }
  // A repetition of data that is still on its way would only delay it.
  const Duration transfer = FromSeconds(static_cast<double>(bytes) / kSlowLinkBytesPerSecond);
  push_retry_ = RetryTimer(timing_.retry_limit + transfer, timing_.lease + transfer);
  pull_retry_ = push_retry_;
}

ShardLink::Leaving ShardLink::Remove(ChunkKey key, uint64_t known) {
  const auto it = std::ranges::lower_bound(chunks(), key, {}, &ChunkLayout::Chunk::key);
  const auto index = it - chunks().begin();
  Leaving leaving;
  leaving.chunk = *it;
  leaving.is_ready = states_[static_cast<size_t>(index)] != ChunkState::kNotReady;
  leaving.is_done = !is_pushing_ && pushed_placement_ <= known;
  leaving.needs_pull = is_pulling_ || pulled_placement_ > known;
  leaving.is_evaluation = is_evaluation_;
  leaving.pulled_step = pulled_step_;
  leaving.min_round = min_round_;
  states_.erase(states_.begin() + index);
  intake_.Remove(key);
  must_pull_ = must_pull_ || (is_pulling_ && !is_pushing_);  // the answer may be given up
  return leaving;
}

void ShardLink::Add(const Leaving& leaving, bool is_travelling) {
  pulled_step_ = has_chunks() ? pulled_step_ : leaving.pulled_step;
  min_round_ = std::max(min_round_, leaving.min_round);
  intake_.Add(leaving.chunk);
  const auto it =
      std::ranges::lower_bound(chunks(), leaving.chunk.key, {}, &ChunkLayout::Chunk::key);
  // A shard that has the step already answers for what it gets of it again.
  const bool is_sent = !is_travelling || leaving.is_done;
  const ChunkState state = is_sent            ? ChunkState::kSent
                           : leaving.is_ready ? ChunkState::kReady
                                              : ChunkState::kNotReady;
  states_.insert(states_.begin() + (it - chunks().begin()), state);
  must_push_ = must_push_ || !is_sent;
  if (leaving.needs_pull) {
    must_pull_ = true;
    is_evaluation_ = leaving.is_evaluation;
  }
}

void ShardLink::AfterMove(uint64_t placement, TimePoint now, proto::Outbox* out) {
  placement_ = placement;
  const bool must_push = std::exchange(must_push_, false);
  const bool must_pull = std::exchange(must_pull_, false);
  const bool was_waiting = push_retry_.is_armed();
  SetRetries();
  if (chunks().empty()) {
    is_pushing_ = false;
    is_pulling_ = false;
    pushed_life_ = 0;
    return;
  }
  if (must_push) {
    is_pushing_ = true;
    push_request_id_ = ++last_request_id_;
    push_answer_min_ = push_request_id_;
  }
  if (is_pushing_) {
    if (must_push && job_.wants_pull) {
      is_pulling_ = true;
      is_evaluation_ = false;
      ExpectPull(push_request_id_);
    } else {
      must_pull_after_push_ = must_pull_after_push_ || must_pull;
    }
    const bool are_all_ready = std::ranges::find(states_, ChunkState::kNotReady) == states_.end();
    SendReady(are_all_ready, now, out);
    if (was_waiting && !push_retry_.is_armed()) {
      push_retry_.Start(now, random_);
    }
  } else if (must_pull) {
    BeginPull(min_round_, is_evaluation_, now, out);
  } else if (is_pulling_) {
    pull_retry_.Start(now, random_);
  }
}

void ShardLink::OnConnected(proto::PeerId peer, TimePoint now, proto::Outbox* out) {
  peer_ = peer;
  push_retry_.Stop();  // what was sent is lost
  SendAgain(now, out);
}

void ShardLink::BeginPush(const PushJob& job) {
  PS_CHECK(!is_pushing_) << "step " << job.step << " begins before step " << job_.step
                         << " is done";
  if (is_pulling_ && job_.wants_pull) {
    late_request_id_ = pull_request_id_;
    late_step_ = job_.step;
    late_count_ = seen_count_;
  }
  job_ = job;
  is_rejected_ = false;
  pushed_placement_ = 0;
  must_pull_after_push_ = false;
  // A shard without chunks (more shards than chunks) has nothing to acknowledge.
  is_pushing_ = !chunks().empty();
  states_.assign(chunks().size(), ChunkState::kNotReady);
  push_request_id_ = ++last_request_id_;
  if (job.wants_pull && is_pushing_) {
    is_pulling_ = true;
    is_evaluation_ = false;
    min_round_ = job.round;
    ExpectPull(push_request_id_);
    pull_retry_.Stop();  // the push is what is repeated until it is done
  }
}

void ShardLink::TensorReady(uint32_t tensor, TimePoint now, proto::Outbox* out) {
  bool are_all_ready = true;
  for (size_t i = 0; i < chunks().size(); ++i) {
    if (TensorOf(chunks()[i].key) == tensor && states_[i] == ChunkState::kNotReady) {
      states_[i] = ChunkState::kReady;
    }
    are_all_ready = are_all_ready && states_[i] != ChunkState::kNotReady;
  }
  // A shard that has given the rest of its chunks away is done before they are ready.
  if (is_pushing_) {
    SendReady(are_all_ready, now, out);
  }
}

void ShardLink::SendReady(bool is_flush, TimePoint now, proto::Outbox* out) {
  if (peer_ == proto::PeerId()) {
    return;  // goes out on connection
  }
  std::array<OpenFrame, 3> frames;  // of f32, of what the job encodes, of nothing
  // Backward finishes the last tensors first, so they leave first.
  for (size_t n = chunks().size(); n > 0; --n) {
    const size_t i = n - 1;
    if (states_[i] != ChunkState::kReady) {
      continue;
    }
    const ChunkLayout::Chunk& chunk = chunks()[i];
    const codec::Encoding encoding = job_.gradient->EncodingOf(chunk);
    const bool is_nothing = encoding.kind == codec::EncodingKind::kNothing;
    OpenFrame& frame = frames[is_nothing ? 2 : encoding.is_lossy() ? 1 : 0];
    // A frame is decoded to twice its size at most.
    const size_t size = std::max<size_t>(
        encoding.SizeOf(chunk.element_count), chunk.element_count * sizeof(float) / 2);
    if (!frame.pieces.empty() && frame.bytes + size > frame_bytes_) {
      SendFrame(frame.pieces, out);
      frame = {};
    }
    const uint32_t part_count = parts_.CountOf(chunk.element_count);
    for (uint32_t part = 0; part < part_count; ++part) {
      if (part_count > 1 && !is_nothing) {
        SendFrame(std::array{Piece{i, part}}, out);
      } else {
        frame.pieces.push_back({i, part});
      }
    }
    frame.bytes += part_count > 1 && !is_nothing ? 0 : size;
  }
  for (const OpenFrame& frame : frames) {
    const bool is_early = frame.bytes >= std::min(frame_bytes_, kEarlyFrameBytes);
    if (!frame.pieces.empty() && (is_flush || is_early)) {
      SendFrame(frame.pieces, out);
    }
  }
  if (is_flush && !push_retry_.is_armed()) {  // else it is a repetition
    waiting_since_ = now;
    push_retry_.Start(now, random_);
  }
}

void ShardLink::SendFrame(std::span<const Piece> pieces, proto::Outbox* out) {
  proto::PushRequest push;
  push.worker = identity_.worker;
  push.incarnation = identity_.incarnation;
  push.step = job_.step;
  push.lease = job_.lease;
  push.round = job_.round;
  push.samples = job_.samples;
  push.local_steps = job_.local_steps;
  push.chunk_count = static_cast<uint32_t>(chunks().size());
  push.encoding = job_.gradient->EncodingOf(chunks()[pieces.front().chunk]);
  for (const auto& [i, part] : pieces) {
    const ChunkLayout::Chunk& chunk = chunks()[i];
    const auto [begin, count] = parts_.At(chunk.element_count, part);
    push.chunks.push_back({chunk.key, count, begin});
    push.payload.parts.push_back(job_.gradient->Piece(chunk, begin, count));
    if (begin + count == chunk.element_count) {
      states_[i] = ChunkState::kSent;
    }
    bytes_pushed_ += push.payload.parts.back().size();
  }
  push.payload.owner = job_.gradient;
  bool is_last = true;
  for (const ChunkState state : states_) {
    is_last = is_last && state == ChunkState::kSent;
  }
  if (is_last && job_.wants_pull) {
    push.wants_pull = true;
    push.pull_encoding = pull_encoding_;
    push.held = intake_.Held();
    push.held_life = intake_.life();
  }
  push.placement = placement_;
  out->Send(peer_, push_request_id_, std::move(push));
}

void ShardLink::SendAgain(TimePoint now, proto::Outbox* out) {
  if (peer_ == proto::PeerId()) {
    return;
  }
  if (is_pushing_) {
    bool are_all_ready = true;
    for (ChunkState& state : states_) {
      if (state == ChunkState::kSent) {
        state = ChunkState::kReady;
      }
      are_all_ready = are_all_ready && state != ChunkState::kNotReady;
    }
    push_request_id_ = ++last_request_id_;
    if (is_pulling_ && job_.wants_pull) {
      ExpectPull(push_request_id_);
    }
    SendReady(are_all_ready, now, out);
    if (are_all_ready) {
      push_retry_.Again(now, random_);
    } else {
      push_retry_.Stop();  // it begins when the rest has left
    }
  } else if (is_pulling_) {
    SendPull(out);
    pull_retry_.Again(now, random_);
  }
}

void ShardLink::ExpectPull(uint64_t request_id) {
  pull_request_id_ = request_id;
  seen_count_ = 0;
  lacks_base_ = false;
}

void ShardLink::BeginPull(
    uint64_t min_round, bool is_evaluation, TimePoint now, proto::Outbox* out) {
  if (chunks().empty()) {
    min_round_ = min_round;
    pulled_round_ = min_round;
    return;
  }
  is_pulling_ = true;
  is_evaluation_ = is_evaluation;
  min_round_ = min_round;
  waiting_since_ = now;
  job_.wants_pull = false;  // this pull replaces a fused one that is still open
  pull_retry_.Start(now, random_);
  if (peer_ != proto::PeerId()) {
    SendPull(out);
  }
}

void ShardLink::SendPull(proto::Outbox* out) {
  proto::PullRequest pull;
  pull.worker = identity_.worker;
  pull.incarnation = identity_.incarnation;
  pull.min_round = min_round_;
  pull.is_evaluation = is_evaluation_;
  pull.held = intake_.Held(is_evaluation_);
  pull.held_life = intake_.life();
  pull.placement = placement_;
  pull.encoding = is_evaluation_ ? codec::Encoding() : pull_encoding_;
  ExpectPull(++last_request_id_);
  out->Send(peer_, pull_request_id_, std::move(pull));
}

bool ShardLink::OnPushReply(
    uint64_t request_id, const proto::PushReply& reply, TimePoint now, proto::Outbox* out) {
  if (!is_pushing_ || reply.step != job_.step || request_id < push_answer_min_) {
    return false;  // an answer to a repetition; the step is done already
  }
  is_pushing_ = false;
  is_rejected_ = is_rejected_ || reply.outcome == proto::PushOutcome::kRejected;
  pushed_life_ = reply.life;
  pushed_placement_ = reply.placement;
  push_retry_.Stop();
  if (std::exchange(must_pull_after_push_, false)) {
    BeginPull(min_round_, is_evaluation_, now, out);
  } else if (is_pulling_) {
    pull_retry_.Start(now, random_);
  }
  return true;
}

Result<std::vector<PullIntake::Fresh>> ShardLink::OnPullReply(
    uint64_t request_id, const proto::PullReply& reply, TimePoint now) {
  PS_ASSIGN(PullIntake::Taken taken, intake_.Take(request_id, reply, placement_));
  const bool is_awaited = is_pulling_ && request_id == pull_request_id_;
  bytes_pulled_ += reply.payload.size();
  seen_count_ += is_awaited ? taken.completed_chunks : 0;
  if (request_id == late_request_id_) {
    late_count_ += taken.completed_chunks;
    if (late_count_ >= reply.chunk_total) {
      pulled_step_ = std::max(pulled_step_, late_step_);
    }
  }
  if (is_awaited && seen_count_ >= reply.chunk_total) {
    is_pulling_ = false;
    pulled_placement_ = reply.placement;
    pulled_round_ = min_round_;
    pulled_step_ = job_.step;
    pull_retry_.Stop();
  } else if (is_awaited && (lacks_base_ || taken.lacks_base)) {
    lacks_base_ = true;
    pull_retry_.DueAt(now);  // at the next tick, so that it is asked for once
  } else if (is_pulling_) {
    pull_retry_.Start(now, random_);  // it is coming, or what was asked for before it is
  }
  return std::move(taken.fresh);
}

void ShardLink::OnRetryLater(uint32_t retry_after_ms, TimePoint now) {
  const TimePoint then = now + std::chrono::milliseconds(retry_after_ms);
  if (is_pushing_) {
    push_retry_.DueAt(then);
  } else if (is_pulling_) {
    pull_retry_.DueAt(then);
  }
}

void ShardLink::OnTick(TimePoint now, proto::Outbox* out) {
  const bool is_push_due = is_pushing_ && push_retry_.IsDue(now);
  const bool is_pull_due = !is_pushing_ && is_pulling_ && pull_retry_.IsDue(now);
  if (is_push_due && out->IsBacklogged(peer_)) {
    push_retry_.Again(now, random_);  // not all of it has left yet
    return;
  }
  if ((is_push_due || is_pull_due) && peer_ != proto::PeerId()) {
    ++retries_;
    SendAgain(now, out);
  }
}

}  // namespace ps::client
