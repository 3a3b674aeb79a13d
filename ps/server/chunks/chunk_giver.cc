#include "ps/server/chunks/chunk_giver.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace ps::server {
namespace {

/// 40 Mbit/s. Over a slower link they take longer, and are offered anew once all have left.
constexpr double kSlowLinkBytesPerSecond = 5e6;

/// So much of the length of a round the next one may become longer for chunks that leave.
constexpr int64_t kAnswersWaitDivisor = 4;

}  // namespace

ChunkGiver::ChunkGiver(
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
    const Logger& log)
    : life_(life),
      store_(store),
      roster_(roster),
      staging_(staging),
      rounds_(rounds),
      schedule_(schedule),
      steps_(steps),
      pulls_(pulls),
      counters_(counters),
      dialer_(dialer),
      log_(log) {}

void ChunkGiver::Reset() {
  giving_.reset();
  given_version_ = 0;
  round_since_ = {};
  answers_may_wait_ = {};
}

void ChunkGiver::OnGiveChunks(const Call& call, const proto::GiveChunks& order) {
  if (!life_.is_set_up || rounds_.is_committing() || dialer_ == nullptr) {
    call.Refuse(Status::Unavailable("this shard can't give chunks now"));
    return;
  }
  if (order.version <= given_version_) {
    call.Answer(proto::ChunksGiven{life_.shard, order.version});
    return;
  }
  if (giving_ && giving_->order.version == order.version) {
    return;
  }
  if (const Status status = Check(order); !status.ok()) {
    call.Refuse(status);
    return;
  }
  if (giving_ && giving_->peer != proto::PeerId()) {
    call.out->Close(giving_->peer);
  }
  giving_ = Giving();
  giving_->order = order;
  HoldPulls();
  for (const ChunkKey key : order.keys) {
    const size_t index = *store_.IndexOf(key);
    store_.SetLeaving(index);
    steps_.ForgetUnfinished(index);
  }
  log_.Info(
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

Status ChunkGiver::Check(const proto::GiveChunks& order) const {
  for (const ChunkKey key : order.keys) {
    if (!store_.IndexOf(key)) {
      return Status::InvalidArgument(
          fmt::format("chunk {} is to move, and is not on shard {}", key.value, life_.shard.value));
    }
  }
  return Status::Ok();
}

void ChunkGiver::OnDialed(ShardId to, proto::PeerId peer, TimePoint now, proto::Outbox* out) {
  if (!giving_ || giving_->order.to.shard != to) {
    out->Close(peer);
    return;
  }
  giving_->peer = peer;
  Offer(now, out);
}

void ChunkGiver::Offer(TimePoint now, proto::Outbox* out) {
  EndPrecedence(now);
  giving_->next_chunk = 0;
  giving_->next_part = 0;
  giving_->next_buffer = 0;
  proto::ChunksOffer offer;
  offer.from = life_.shard;
  offer.version = giving_->order.version;
  offer.to_life = giving_->order.to_life;
  offer.generation = roster_.generation();
  offer.samples_done = schedule_.samples_done();
  offer.lr_factor = schedule_.policy().state();
  const uint64_t bytes = OfferChunks(&offer) + OfferStaged(&offer);
  giving_->next_try = now + life_.settings.timing.retry_limit +
                      FromSeconds(static_cast<double>(bytes) / kSlowLinkBytesPerSecond);
  giving_->offered_at = now;
  giving_->goes_first = rounds_.is_bsp() && answers_may_wait_ > Duration();
  out->Send(giving_->peer, ++last_offer_id_, std::move(offer));
  Continue(out);
}

/// The chunks, and what they have of each member's steps. Returns how many bytes they will be.
uint64_t ChunkGiver::OfferChunks(proto::ChunksOffer* offer) const {
  uint64_t bytes = 0;
  std::vector<size_t> indices;
  for (const ChunkKey key : giving_->order.keys) {
    indices.push_back(*store_.IndexOf(key));
    const Chunk& chunk = store_.chunks()[indices.back()];
    offer->chunks.push_back({key, chunk.version, {}});
    bytes += BuffersOf(chunk).size() * chunk.value.size();
  }
  for (const auto& [incarnation, member] : roster_.members()) {
    const Roster::Clock clock = roster_.ClockOf(member);
    offer->members.push_back(
        {incarnation,
         member.settled_step(),
         clock.clock,
         member.may_skip,
         clock.is_active,
         member.last_round,
         member.last_outcome == proto::PushOutcome::kRejected});
    if (!rounds_.is_bsp()) {
      OfferSamples(member, offer);
    }
    const std::vector<bool> ahead = steps_.AheadIn(indices, member);
    for (size_t i = 0; i < indices.size(); ++i) {
      if (ahead[i]) {
        offer->chunks[i].ahead.push_back(incarnation);
      }
    }
  }
  return bytes;
}

/// What the other shard has to know of the member's newest steps for its schedule.
void ChunkGiver::OfferSamples(const Member& member, proto::ChunksOffer* offer) {
  proto::OfferedMember& offered = offer->members.back();
  if (member.is_step_again()) {
    offered.next_samples = member.counted_samples;
    offer->samples_done -= std::min<uint64_t>(offer->samples_done, member.counted_samples);
    return;
  }
  offered.last_samples = member.counted_step == member.settled_step() ? member.counted_samples : 0;
  offered.next_samples =
      member.is_step_under_way() ? member.intake.samples : member.restored_samples;
}

/// bsp: gradients of the chunks that wait for their round. Returns how many bytes they will be.
uint64_t ChunkGiver::OfferStaged(proto::ChunksOffer* offer) {
  giving_->staged.clear();
  giving_->gradients.clear();
  uint64_t bytes = 0;
  for (const auto& [id, contribution] : staging_.contributions()) {
    proto::StagedStep step{id.first, id.second, contribution.round, contribution.samples, {}};
    for (const ChunkKey key : giving_->order.keys) {
      const Chunk& chunk = *store_.Find(key);
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
  offer->staged = giving_->staged;
  return bytes;
}

/// Sends parts until the other shard is backlogged. Nothing changes them while they wait.
void ChunkGiver::Continue(proto::Outbox* out) {
  if (!giving_ || !giving_->next_chunk) {
    return;
  }
  while (*giving_->next_chunk < giving_->order.keys.size() && !out->IsBacklogged(giving_->peer)) {
    if (std::optional<proto::ChunkPart> part = NextPart(); part) {
      counters_.bytes_sent += part->payload.size();
      out->Send(giving_->peer, last_offer_id_, std::move(*part));
    }
  }
  HoldPulls();
  if (giving_->goes_first && *giving_->next_chunk == giving_->order.keys.size()) {
    pulls_.Continue(out);
  }
}

/// A part of a buffer of a chunk, or of a gradient that waits for its round; nothing when what
/// comes next has none.
std::optional<proto::ChunkPart> ChunkGiver::NextPart() {
  const Chunk& chunk = *store_.Find(giving_->order.keys[*giving_->next_chunk]);
  const auto [begin, count] = store_.RangeOf(chunk, giving_->next_part);
  const auto buffers = BuffersOf(chunk);
  proto::ChunkPart part;
  part.version = giving_->order.version;
  part.chunks.push_back({chunk.key, count, begin});
  const size_t buffer = giving_->next_buffer++;
  if (buffer < buffers.size()) {
    part.buffer = static_cast<uint32_t>(buffer);
    part.payload.parts.push_back(std::as_bytes(buffers[buffer]->floats().subspan(begin, count)));
    return part;
  }
  if (const size_t step = buffer - buffers.size(); step < giving_->staged.size()) {
    if (!std::ranges::binary_search(giving_->staged[step].keys, chunk.key)) {
      return std::nullopt;
    }
    const StagedPart& gradient = giving_->gradients[step][chunk.first_part + giving_->next_part];
    part.buffer = kBuffersMax + static_cast<uint32_t>(step);
    part.payload.parts.push_back(std::as_bytes(gradient.values));
    part.payload.owner = gradient.owner;
    return part;
  }
  giving_->next_buffer = 0;
  if (++giving_->next_part == chunk.part_count) {
    giving_->next_part = 0;
    ++*giving_->next_chunk;
  }
  return std::nullopt;
}

/// bsp: answers to pulls wait while chunks are sent that go first. Where the link of this shard
/// limits a round this costs the round little: the other shard's link brings them to the workers.
void ChunkGiver::HoldPulls() {
  pulls_.Hold(
      giving_ && giving_->goes_first && giving_->next_chunk &&
      *giving_->next_chunk < giving_->order.keys.size());
}

/// They waited, or may have, since the offer.
void ChunkGiver::EndPrecedence(TimePoint now) {
  if (giving_ && std::exchange(giving_->goes_first, false)) {
    answers_may_wait_ -= std::min(answers_may_wait_, now - giving_->offered_at);
    HoldPulls();
  }
}

bool ChunkGiver::IsReceiver(proto::PeerId peer) const {
  return (giving_ && giving_->peer == peer) ||
         std::ranges::find(receivers_, peer, &Receiver::peer) != receivers_.end();
}

void ChunkGiver::CloseAll(proto::Outbox* out) {
  for (const Receiver& receiver : receivers_) {
    out->Close(receiver.peer);
  }
  receivers_.clear();
  if (giving_ && giving_->peer != proto::PeerId()) {
    out->Close(giving_->peer);
  }
}

void ChunkGiver::OnReceiver(const Call& call, const proto::Message& message) {
  if (!giving_ || giving_->peer != call.peer) {
    return;  // late, of chunks that it has
  }
  if (const auto* const taken = std::get_if<proto::ChunksTaken>(&message)) {
    if (taken->version == giving_->order.version) {
      giving_->taken = taken->generation;
    }
  } else if (const auto* const refusal = std::get_if<proto::Refusal>(&message)) {
    if (refusal->code != StatusCode::kUnavailable) {
      log_.Warning("chunks_refused", {{"why", refusal->message}});
    }
    EndPrecedence(call.now);
    giving_->next_chunk.reset();
    giving_->next_try = call.now + life_.settings.timing.retry_first;
    pulls_.Continue(call.out);
  }
}

void ChunkGiver::OnDrained(proto::PeerId peer, proto::Outbox* out) {
  if (giving_ && peer == giving_->peer) {
    Continue(out);
  }
}

void ChunkGiver::OnPeerClosed(proto::PeerId peer, TimePoint now) {
  if (giving_ && giving_->peer == peer) {
    EndPrecedence(now);
    giving_->peer = proto::PeerId();
    giving_->next_chunk.reset();
    giving_->next_try = now + life_.settings.timing.retry_first;
  }
  std::erase_if(receivers_, [&](const Receiver& receiver) { return receiver.peer == peer; });
}

bool ChunkGiver::IsLeaving(const proto::Outbox& out) const {
  return giving_->peer != proto::PeerId() && giving_->next_chunk.has_value() &&
         (*giving_->next_chunk < giving_->order.keys.size() || out.IsBacklogged(giving_->peer));
}

void ChunkGiver::OnTick(TimePoint now, proto::Outbox* out) {
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
  pulls_.Continue(out);
  if (!giving_ || giving_->next_try == TimePoint() || now < giving_->next_try) {
    return;
  }
  if (IsLeaving(*out)) {  // offered anew they would begin from the first
    giving_->next_try = now + life_.settings.timing.retry_limit;
    return;
  }
  giving_->next_try = {};
  if (giving_->peer != proto::PeerId()) {
    Offer(now, out);
  } else {
    dialer_->Dial(giving_->order.to);
  }
}

void ChunkGiver::OnRound(TimePoint now) {
  const Duration took = round_since_ == TimePoint() ? Duration() : now - round_since_;
  round_since_ = now;
  answers_may_wait_ = std::min(took / kAnswersWaitDivisor, life_.settings.timing.detect);
}

std::optional<Reindexing> ChunkGiver::TakeAway(TimePoint now) {
  if (!giving_ || !giving_->taken || roster_.generation() < *giving_->taken) {
    return std::nullopt;
  }
  EndPrecedence(now);
  const Giving giving = std::move(*giving_);
  giving_.reset();
  given_version_ = giving.order.version;
  if (giving.peer != proto::PeerId()) {
    receivers_.push_back({giving.order.to, giving.peer, now + life_.settings.timing.retry_limit});
  }
  Reindexing chunks(store_);
  store_.Remove(giving.order.keys, given_version_);
  chunks.SetAfter(store_);
  return chunks;
}

}  // namespace ps::server
