// Chunks that move to another shard while training goes on.
//
// A chunk that is given stays as it is: pushes of it are left out, and no step that needs it
// completes here. When the other shard has it, with what it has of each worker's steps, this one
// forgets it, and the steps that need no more are complete. So at any time the steps of a chunk are
// counted by one shard at least, and are changed by one at most. A worker that pushes to where a
// chunk was learns from the answer's placement that it has to ask where that is now.

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "ps/server/shard_core.h"

namespace ps::server {
namespace {

/// 40 Mbit/s: at a slower one chunks are sent again while they are still on their way.
constexpr double kSlowLinkBytesPerSecond = 5e6;

/// Which of `indices` have the step of the member that is under way, as AppliedOf says of all.
std::vector<bool> AheadIn(const std::vector<size_t>& indices, const Member& member) {
  std::vector<bool> ahead;
  ahead.reserve(indices.size());
  if (member.is_step_under_way()) {
    for (const size_t index : indices) {
      ahead.push_back(member.intake.parts_left[index] == 0);
    }
    return ahead;
  }
  const std::set<size_t> restored(member.restored.begin(), member.restored.end());
  for (const size_t index : indices) {
    ahead.push_back(restored.contains(index));
  }
  return ahead;
}

/// Marks a chunk of the step under way as not here.
void Forget(size_t index, const Chunk& chunk, Intake* intake) {
  for (uint32_t part = 0; part < chunk.part_count; ++part) {
    intake->has_come[chunk.first_part + part] = false;
  }
  intake->parts_left[index] = chunk.part_count;
  intake->is_rejected[index] = false;
  intake->unfinished.erase(index);
}

}  // namespace

void ShardCore::OnGiveChunks(const Call& call, const proto::GiveChunks& order) {
  if (!is_set_up_ || commit_ || dialer_ == nullptr) {
    Refuse(call, Status::Unavailable("this shard can't give chunks now"), 0);
    return;
  }
  if (order.version <= given_version_) {
    call.out->Send(call.peer, call.request_id, proto::ChunksGiven{shard_, order.version});
    return;
  }
  if (giving_ && giving_->order.version == order.version) {
    return;
  }
  for (const ChunkKey key : order.keys) {
    if (!store_.IndexOf(key)) {
      Refuse(
          call,
          Status::InvalidArgument(
              fmt::format("chunk {} is to move, and is not on shard {}", key.value, shard_.value)),
          0);
      return;
    }
  }
  if (giving_ && giving_->peer != proto::PeerId()) {
    call.out->Close(giving_->peer);
  }
  giving_.emplace();
  giving_->order = order;
  Freeze();
  log_->Info(
      "chunks_leave",
      {{"placement", order.version}, {"chunks", order.keys.size()}, {"to", order.to.shard.value}});
  const auto known = std::ranges::find(receivers_, order.to, &Receiver::address);
  if (known == receivers_.end()) {
    dialer_->Dial(order.to);
    return;
  }
  giving_->peer = known->peer;
  receivers_.erase(known);
  Offer(call.now, call.out);
}

/// What has come of a chunk that leaves, and is not all of it, comes to the other shard anew.
void ShardCore::Freeze() {
  for (const ChunkKey key : giving_->order.keys) {
    const size_t index = *store_.IndexOf(key);
    is_frozen_.resize(store_.size());
    is_frozen_[index] = true;
    for (auto& [incarnation, member] : roster_.members()) {
      Intake& intake = member.intake;
      if (member.is_step_under_way() && intake.parts_left[index] != 0) {
        Forget(index, store_.chunks()[index], &intake);
        Recount(store_, &intake);
      }
    }
  }
}

void ShardCore::OnDialed(ShardId to, proto::PeerId peer, TimePoint now, proto::Outbox* out) {
  if (!giving_ || is_shut_down_ || giving_->order.to.shard != to) {
    out->Close(peer);
    return;
  }
  giving_->peer = peer;
  Offer(now, out);
}

void ShardCore::Offer(TimePoint now, proto::Outbox* out) {
  EndPrecedence(now);
  giving_->next_chunk = 0;
  giving_->next_part = 0;
  giving_->next_buffer = 0;
  giving_->staged.clear();
  giving_->gradients.clear();
  proto::ChunksOffer offer;
  offer.from = shard_;
  offer.version = giving_->order.version;
  offer.to_life = giving_->order.to_life;
  offer.generation = roster_.generation();
  offer.samples_done = samples_done_;
  offer.lr_factor = lr_policy_.state();
  uint64_t bytes = 0;
  std::vector<size_t> indices;
  for (const ChunkKey key : giving_->order.keys) {
    indices.push_back(*store_.IndexOf(key));
    const Chunk& chunk = store_.chunks()[indices.back()];
    offer.chunks.push_back({key, chunk.version, {}});
    bytes += BuffersOf(chunk).size() * chunk.value.size();
  }
  for (const auto& [incarnation, member] : roster_.members()) {
    const Roster::Clock clock = roster_.ClockOf(member);
    offer.members.push_back(
        {incarnation,
         member.settled_step(),
         clock.clock,
         member.may_skip,
         clock.is_active,
         member.last_round,
         member.last_outcome == proto::PushOutcome::kRejected});
    const std::vector<bool> ahead = AheadIn(indices, member);
    for (size_t i = 0; i < indices.size(); ++i) {
      if (ahead[i]) {
        offer.chunks[i].ahead.push_back(incarnation);
      }
    }
  }
  for (const auto& [id, contribution] : staging_.contributions()) {
    proto::StagedStep step{id.first, id.second, contribution.round, contribution.samples, {}};
    for (const ChunkKey key : giving_->order.keys) {
      const Chunk& chunk = store_.chunks()[*store_.IndexOf(key)];
      if (contribution.Has(chunk.first_part, chunk.part_count)) {
        step.keys.push_back(key);
        bytes += chunk.value.size();
      }
    }
    if (!step.keys.empty()) {
      giving_->staged.push_back(std::move(step));
      giving_->gradients.push_back(contribution.parts);
    }
  }
  offer.staged = giving_->staged;
  giving_->next_try = now + settings_.timing.retry_limit +
                      FromSeconds(static_cast<double>(bytes) / kSlowLinkBytesPerSecond);
  giving_->offered_at = now;
  giving_->goes_first = is_bsp() && answers_may_wait_ > Duration();
  out->Send(giving_->peer, ++last_request_id_, std::move(offer));
  ContinueGiving(out);
}

/// Sends parts until the other shard is backlogged. Nothing changes them while they wait.
void ShardCore::ContinueGiving(proto::Outbox* out) {
  if (!giving_ || !giving_->next_chunk) {
    return;
  }
  size_t& next = *giving_->next_chunk;
  while (next < giving_->order.keys.size() && !out->IsBacklogged(giving_->peer)) {
    const Chunk& chunk = store_.chunks()[*store_.IndexOf(giving_->order.keys[next])];
    const auto [begin, count] = store_.RangeOf(chunk, giving_->next_part);
    const auto buffers = BuffersOf(chunk);
    proto::ChunkPart part;
    part.version = giving_->order.version;
    part.chunks.push_back({chunk.key, count, begin});
    const size_t buffer = giving_->next_buffer++;
    if (buffer < buffers.size()) {
      part.buffer = static_cast<uint32_t>(buffer);
      part.payload.parts.push_back(std::as_bytes(buffers[buffer]->floats().subspan(begin, count)));
    } else if (const size_t step = buffer - buffers.size(); step < giving_->staged.size()) {
      if (!std::ranges::binary_search(giving_->staged[step].keys, chunk.key)) {
        continue;
      }
      const StagedPart& gradient = giving_->gradients[step][chunk.first_part + giving_->next_part];
      part.buffer = kBuffersMax + static_cast<uint32_t>(step);
      part.payload.parts.push_back(std::as_bytes(gradient.values));
      part.payload.owner = gradient.owner;
    }
    if (!part.payload.parts.empty()) {
      stats_.bytes_sent += count * sizeof(float);
      out->Send(giving_->peer, last_request_id_, std::move(part));
      continue;
    }
    giving_->next_buffer = 0;
    if (++giving_->next_part == chunk.part_count) {
      giving_->next_part = 0;
      ++next;
    }
  }
  if (giving_->goes_first && next == giving_->order.keys.size()) {
    ContinueAnswers(out);
  }
}

/// bsp: answers to pulls wait while chunks are sent that go first. Where the link of this shard
/// limits a round this costs the round little: the other shard's link brings them to the workers.
bool ShardCore::DoAnswersWait() const {
  return giving_ && giving_->goes_first && giving_->next_chunk &&
         *giving_->next_chunk < giving_->order.keys.size();
}

/// They waited, or may have, since the offer.
void ShardCore::EndPrecedence(TimePoint now) {
  if (giving_ && std::exchange(giving_->goes_first, false)) {
    answers_may_wait_ -= std::min(answers_may_wait_, now - giving_->offered_at);
  }
}

bool ShardCore::IsReceiver(proto::PeerId peer) const {
  return (giving_ && giving_->peer == peer) ||
         std::ranges::find(receivers_, peer, &Receiver::peer) != receivers_.end();
}

void ShardCore::CloseReceivers(proto::Outbox* out) {
  for (const Receiver& receiver : receivers_) {
    out->Close(receiver.peer);
  }
  receivers_.clear();
  if (giving_ && giving_->peer != proto::PeerId()) {
    out->Close(giving_->peer);
  }
}

/// From a shard that gets chunks, or got them.
void ShardCore::OnReceiver(const Call& call, const proto::Message& message) {
  if (!giving_ || giving_->peer != call.peer) {
    return;  // late, of chunks that it has
  }
  if (const auto* const taken = std::get_if<proto::ChunksTaken>(&message)) {
    if (taken->version == giving_->order.version) {
      giving_->taken = taken->generation;
      FinishGiving(call.now, call.out);
    }
  } else if (const auto* const refusal = std::get_if<proto::Refusal>(&message)) {
    if (refusal->code != StatusCode::kUnavailable) {
      log_->Warning("chunks_refused", {{"why", refusal->message}});
    }
    EndPrecedence(call.now);
    giving_->next_chunk.reset();
    giving_->next_try = call.now + settings_.timing.retry_first;
    ContinueAnswers(call.out);
  }
}

void ShardCore::TickGiving(TimePoint now, proto::Outbox* out) {
  std::erase_if(receivers_, [&](const Receiver& receiver) {
    const bool is_idle = now >= receiver.close_at;
    if (is_idle) {
      out->Close(receiver.peer);
    }
    return is_idle;
  });
  if (giving_ && giving_->goes_first && now - giving_->offered_at >= answers_may_wait_) {
    EndPrecedence(now);
  }
  ContinueAnswers(out);
  if (!giving_ || giving_->next_try == TimePoint() || now < giving_->next_try) {
    return;
  }
  giving_->next_try = {};
  if (giving_->peer != proto::PeerId()) {
    Offer(now, out);
  } else {
    dialer_->Dial(giving_->order.to);
  }
}

/// The chunks are forgotten when this shard knows the membership that the other one knew: of who
/// is fenced by it, each has said what it has with the chunks or without, and one of them with.
void ShardCore::FinishGiving(TimePoint now, proto::Outbox* out) {
  if (!giving_ || !giving_->taken || roster_.generation() < *giving_->taken) {
    return;
  }
  EndPrecedence(now);
  const Giving giving = std::move(*giving_);
  giving_.reset();
  is_frozen_.clear();
  given_version_ = giving.order.version;
  placement_version_ = giving.order.version;
  if (giving.peer != proto::PeerId()) {
    receivers_.push_back({giving.order.to, giving.peer, now + settings_.timing.retry_limit});
  }
  Reindexing chunks(store_);
  store_.Remove(giving.order.keys);
  chunks.SetAfter(store_);
  ReindexAll(chunks);
  log_->Info("chunks_left", {{"placement", given_version_}, {"chunks", store_.size()}});
  if (coordinator_ != proto::PeerId()) {
    out->Send(coordinator_, 0, proto::ChunksGiven{shard_, given_version_});
  }
  for (auto& [incarnation, member] : roster_.members()) {
    FinishWithout(&member, now, out);
  }
  ContinueAnswers(out);
}

/// What a step lacked here has left: with what stays it is complete.
void ShardCore::FinishWithout(Member* member, TimePoint now, proto::Outbox* out) {
  const Intake& intake = member->intake;
  if (store_.size() == 0) {
    return;
  }
  if (!member->is_step_under_way()) {
    if (member->restored.size() < store_.size()) {
      return;
    }
    member->restored.clear();
    ++member->last_step;
    member->last_outcome = proto::PushOutcome::kApplied;
    member->last_rejected_chunks = 0;
    SettleStaged(member);
    if (member->last_step > member->counted_step) {
      member->counted_step = member->last_step;
      if (roster_.Advance(member)) {
        ReleasePulls(out);
      }
    }
  } else if (intake.complete_count == intake.chunk_count) {
    const Call call{intake.peer, intake.request_id, now, out};
    ready_.clear();
    Acknowledge(call, member);
    CompleteStep(call, member);
  }
}

/// bsp: all of the member's step in the chunk waits here for its round.
bool ShardCore::IsStaged(const Member& member, Step step, const Chunk& chunk) const {
  const Staging::Contribution* const staged = staging_.Find({member.incarnation, step});
  return staged != nullptr && staged->Has(chunk.first_part, chunk.part_count);
}

/// bsp: the member's last step is complete with what came from elsewhere. What was not finite there
/// was not staged.
void ShardCore::SettleStaged(Member* member) {
  if (!is_bsp()) {
    return;
  }
  const Staging::Id id(member->incarnation, member->last_step);
  const Staging::Contribution* const staged = staging_.Find(id);
  const bool is_whole = staged != nullptr && staged->is_whole();
  if (is_whole) {
    staging_.Complete(id);
  } else {
    staging_.Drop(id);
  }
  member->last_round = round_ + 1;
  member->last_outcome = is_whole ? proto::PushOutcome::kStaged : proto::PushOutcome::kRejected;
}

/// All that goes by the index of a chunk.
void ShardCore::ReindexAll(const Reindexing& chunks) {
  checkpointer_.Reindex(chunks);
  model_answer_.reset();
  if (store_.size() == 0) {
    staging_ = Staging();  // it went with the chunks
  }
  staging_.Rearrange(chunks.EarlierParts(store_));
  for (auto& [incarnation, member] : roster_.members()) {
    if (member.is_step_under_way()) {
      Reindex(chunks, store_, &member.intake);
    } else {
      member.intake = Intake();
      member.fused.reset();
    }
    std::vector<size_t> restored;
    for (const size_t index : member.restored) {
      if (const std::optional<size_t> later = chunks.later()[index]; later) {
        restored.push_back(*later);
      }
    }
    member.restored = std::move(restored);
    if (member.answer && !Reindex(chunks, &*member.answer)) {
      EndAnswer(&member);
    }
  }
}

}  // namespace ps::server
