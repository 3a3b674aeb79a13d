// Chunks that move to another shard, or come from one, while training goes on.
//
// A chunk that is given stays as it is: pushes of it are left out, and no step that needs it
// completes here. When the other shard has it, with what it has of each worker's steps, this one
// forgets it, and the steps that need no more are complete. So at any time the steps of a chunk are
// counted by one shard at least, and are changed by one at most. A worker that pushes to where a
// chunk was learns from the answer's placement that it has to ask where that is now.

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "ps/server/shard_core.h"

namespace ps::server {
namespace {

/// 40 Mbit/s: at a slower one chunks are sent again while they are still on their way.
constexpr double kSlowLinkBytesPerSecond = 5e6;

constexpr size_t kBuffersMax = 1 + kernels::kOptimizerSlotsMax;

/// The buffers of a chunk that travel: its value, and those of its optimizer that it has.
template <typename C>
auto BuffersOf(C& chunk) {
  std::vector<decltype(&chunk.value)> buffers = {&chunk.value};
  for (auto& slot : chunk.slots) {
    if (slot.size() > 0) {
      buffers.push_back(&slot);
    }
  }
  return buffers;
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

/// Marks a chunk of the step under way as here, all of it.
void MarkHere(size_t index, const Chunk& chunk, Intake* intake) {
  for (uint32_t part = 0; part < chunk.part_count; ++part) {
    intake->has_come[chunk.first_part + part] = true;
  }
  intake->parts_left[index] = 0;
}

/// Counts anew what the chunks say.
void Recount(const ChunkStore& store, Intake* intake) {
  intake->begun_count = 0;
  intake->complete_count = 0;
  intake->rejected_count = 0;
  for (size_t i = 0; i < store.size(); ++i) {
    intake->begun_count += intake->parts_left[i] < store.chunks()[i].part_count ? 1 : 0;
    intake->complete_count += intake->parts_left[i] == 0 ? 1 : 0;
    intake->rejected_count += intake->is_rejected[i] ? 1 : 0;
  }
}

/// The step under way by the chunks that there are now; of one that has come nothing is here.
void Reindex(const Reindexing& chunks, const ChunkStore& store, Intake* intake) {
  Intake before = *intake;
  intake->has_come.assign(store.part_count(), false);
  intake->parts_left.clear();
  intake->is_rejected.assign(store.size(), false);
  intake->unfinished.clear();
  for (size_t i = 0; i < store.size(); ++i) {
    const Chunk& chunk = store.chunks()[i];
    const std::optional<Reindexing::Earlier>& earlier = chunks.earlier()[i];
    intake->parts_left.push_back(earlier ? before.parts_left[earlier->index] : chunk.part_count);
    if (!earlier) {
      continue;
    }
    intake->is_rejected[i] = before.is_rejected[earlier->index];
    for (uint32_t part = 0; part < chunk.part_count; ++part) {
      intake->has_come[chunk.first_part + part] = before.has_come[earlier->first_part + part];
    }
    if (auto parts = before.unfinished.extract(earlier->index); !parts.empty()) {
      intake->unfinished[i] = std::move(parts.mapped());
    }
  }
  // Steps of some chunks only, which no worker makes, are taken for such of those that are left.
  intake->chunk_count = before.chunk_count == before.parts_left.size()
                            ? static_cast<uint32_t>(store.size())
                            : std::min(before.chunk_count, static_cast<uint32_t>(store.size()));
  Recount(store, intake);
}

/// False when a chunk that has gone was still to be sent: who asked asks again when it knows.
bool Reindex(const Reindexing& chunks, PullAnswer* answer) {
  std::vector<uint32_t> left;
  size_t next = answer->next;
  for (size_t i = 0; i < answer->chunks.size(); ++i) {
    if (const std::optional<size_t> later = chunks.later()[answer->chunks[i]]; later) {
      left.push_back(static_cast<uint32_t>(*later));
    } else if (i >= answer->next) {
      return false;
    } else {
      --next;
    }
  }
  answer->chunks = std::move(left);
  answer->next = next;
  return true;
}

}  // namespace

Reindexing::Reindexing(const ChunkStore& before) {
  for (size_t i = 0; i < before.size(); ++i) {
    before_.push_back({before.chunks()[i].key, i, before.chunks()[i].first_part});
  }
}

void Reindexing::SetAfter(const ChunkStore& after) {
  earlier_.assign(after.size(), std::nullopt);
  later_.assign(before_.size(), std::nullopt);
  for (const Earlier& chunk : before_) {
    if (const std::optional<size_t> index = after.IndexOf(chunk.key); index) {
      earlier_[*index] = chunk;
      later_[chunk.index] = index;
    }
  }
}

// ---- Giving

void ShardCore::OnGiveChunks(const Call& call, const proto::GiveChunks& order) {
  if (!is_set_up_ || is_bsp() || dialer_ == nullptr) {
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
  giving_->next_chunk = 0;
  giving_->next_part = 0;
  giving_->next_buffer = 0;
  proto::ChunksOffer offer;
  offer.from = shard_;
  offer.version = giving_->order.version;
  offer.to_life = giving_->order.to_life;
  offer.generation = roster_.generation();
  offer.samples_done = samples_done_;
  offer.lr_factor = lr_policy_.state();
  uint64_t bytes = 0;
  for (const ChunkKey key : giving_->order.keys) {
    const Chunk& chunk = store_.chunks()[*store_.IndexOf(key)];
    offer.chunks.push_back({key, chunk.version, {}});
    bytes += BuffersOf(chunk).size() * chunk.value.size();
  }
  giving_->next_try = now + settings_.timing.retry_limit +
                      FromSeconds(static_cast<double>(bytes) / kSlowLinkBytesPerSecond);
  for (const auto& [incarnation, member] : roster_.members()) {
    const Roster::Clock clock = roster_.ClockOf(member);
    offer.members.push_back(
        {incarnation, member.settled_step(), clock.clock, member.may_skip, clock.is_active});
    const std::vector<ChunkKey> applied = AppliedOf(member);
    for (proto::OfferedChunk& chunk : offer.chunks) {
      if (std::ranges::find(applied, chunk.key) != applied.end()) {
        chunk.ahead.push_back(incarnation);
      }
    }
  }
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
    part.buffer = giving_->next_buffer;
    part.chunks.push_back({chunk.key, count, begin});
    part.payload.parts.push_back(
        std::as_bytes(buffers[part.buffer]->floats().subspan(begin, count)));
    stats_.bytes_sent += count * sizeof(float);
    out->Send(giving_->peer, last_request_id_, std::move(part));
    if (++giving_->next_buffer < buffers.size()) {
      continue;
    }
    giving_->next_buffer = 0;
    if (++giving_->next_part == chunk.part_count) {
      giving_->next_part = 0;
      ++next;
    }
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
    giving_->next_chunk.reset();
    giving_->next_try = call.now + settings_.timing.retry_first;
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
    const Intake& intake = member.intake;
    if (member.is_step_under_way() && intake.complete_count == intake.chunk_count &&
        store_.size() > 0) {
      const Call call{intake.peer, intake.request_id, now, out};
      ready_.clear();
      Acknowledge(call, &member);
      CompleteStep(call, &member);
    }
  }
}

// ---- Taking

Status ShardCore::CheckOffer(const proto::ChunksOffer& offer) const {
  if (!is_set_up_ || is_bsp() || offer.to_life != life_ ||
      roster_.generation() < offer.generation) {
    return Status::Unavailable(fmt::format(
        "shard {} is in life {} with membership {} and takes no chunks of life {} and membership "
        "{} yet",
        shard_.value,
        life_,
        roster_.generation().value,
        offer.to_life,
        offer.generation.value));
  }
  const auto is_before = [](const auto& a, const auto& b) { return a.key >= b.key; };
  if (offer.chunks.empty() ||
      std::ranges::adjacent_find(offer.chunks, is_before) != offer.chunks.end()) {
    return Status::InvalidArgument("an offer has no chunks, or not in their order");
  }
  return Status::Ok();
}

void ShardCore::OnOffer(const Call& call, proto::ChunksOffer& offer) {
  if (is_set_up_ && offer.to_life == life_ && offer.version <= taken_version_) {
    call.out->Send(
        call.peer, call.request_id, proto::ChunksTaken{offer.version, roster_.generation()});
    return;
  }
  Status status = CheckOffer(offer);
  if (status.ok() && taking_ && taking_->peer == call.peer &&
      taking_->offer.version == offer.version &&
      std::ranges::equal(
          taking_->chunks, offer.chunks, {}, &Chunk::key, &proto::OfferedChunk::key)) {
    taking_->offer = std::move(offer);  // of the same chunks, some of which have come
    taking_->request_id = call.request_id;
    return;
  }
  taking_.reset();
  Taking taking;
  size_t part_count = 0;
  for (size_t i = 0; i < offer.chunks.size() && status.ok(); ++i) {
    Result<Chunk> chunk = store_.MakeChunk(offer.chunks[i].key, part_count);
    status = chunk.status();
    if (status.ok()) {
      chunk->version = offer.chunks[i].version;
      part_count += chunk->part_count;
      taking.parts_left += chunk->part_count * BuffersOf(*chunk).size();
      taking.chunks.push_back(std::move(chunk).value());
    }
  }
  if (!status.ok()) {
    Refuse(call, status, 0);
    return;
  }
  taking.peer = call.peer;
  taking.request_id = call.request_id;
  taking.has_come.resize(part_count * kBuffersMax);
  taking.offer = std::move(offer);
  taking_ = std::move(taking);
}

void ShardCore::OnChunkPart(const Call& call, const proto::ChunkPart& part) {
  stats_.bytes_received += part.payload.size();
  if (!taking_ || taking_->peer != call.peer || taking_->offer.version != part.version) {
    return;  // of an offer that was refused, or given up
  }
  const proto::ChunkRef first = part.chunks.size() != 1 ? proto::ChunkRef() : part.chunks.front();
  const auto chunk = std::ranges::find(taking_->chunks, first.key, &Chunk::key);
  std::optional<uint32_t> number;
  bool is_whole = chunk != taking_->chunks.end() && part.payload.parts.size() == 1;
  if (is_whole) {
    number = store_.parts().IndexOf(
        static_cast<uint64_t>(chunk->element_count), {first.element_begin, first.element_count});
    is_whole = number && part.buffer < BuffersOf(*chunk).size();
  }
  if (!is_whole) {
    taking_.reset();
    Refuse(
        call,
        Status::InvalidArgument(
            fmt::format("a part of chunk {} is none of what was offered", first.key.value)),
        0);
    return;
  }
  const size_t place = (chunk->first_part + *number) * kBuffersMax + part.buffer;
  if (taking_->has_come[place]) {
    return;
  }
  const std::span<const std::byte> bytes = part.payload.bytes();
  std::memcpy(
      BuffersOf(*chunk)[part.buffer]->data() + first.element_begin * sizeof(float),
      bytes.data(),
      bytes.size());
  taking_->has_come[place] = true;
  if (--taking_->parts_left == 0) {
    FinishTaking(call.out);
  }
}

void ShardCore::FinishTaking(proto::Outbox* out) {
  Taking taking = std::move(*taking_);
  taking_.reset();
  const bool was_empty = store_.size() == 0;
  Reindexing chunks(store_);
  store_.Insert(std::move(taking.chunks));
  chunks.SetAfter(store_);
  ReindexAll(chunks);
  for (auto& [incarnation, member] : roster_.members()) {
    TakeSteps(taking.offer, was_empty, &member);
  }
  if (was_empty) {
    std::map<Incarnation, Roster::Clock> clocks;
    for (const proto::OfferedMember& offered : taking.offer.members) {
      if (const Member* const member = roster_.Find(offered.incarnation); member != nullptr) {
        clocks[offered.incarnation] = {
            offered.clock + (member->last_step - offered.last_step), offered.is_active};
      }
    }
    roster_.SetClocks(clocks);
    samples_done_ = taking.offer.samples_done;
    lr_policy_.Restore(taking.offer.lr_factor);
  }
  taken_version_ = taking.offer.version;
  placement_version_ = std::max(placement_version_, taking.offer.version);
  log_->Info("chunks_came", {{"placement", taken_version_}, {"chunks", store_.size()}});
  out->Send(
      taking.peer, taking.request_id, proto::ChunksTaken{taken_version_, roster_.generation()});
}

/// What the member has done in the chunks that have come. A worker makes one step after the other,
/// so a chunk is at most one step behind the others or ahead of them.
void ShardCore::TakeSteps(const proto::ChunksOffer& offer, bool was_empty, Member* member) {
  const auto offered =
      std::ranges::find(offer.members, member->incarnation, &proto::OfferedMember::incarnation);
  // One that is not named has joined since, and has done nothing in these.
  const proto::OfferedMember there =
      offered == offer.members.end() ? proto::OfferedMember{member->incarnation} : *offered;
  std::vector<size_t> come;                          // by index
  std::vector<size_t> ahead;                         // of these, those with the step after
  std::vector<bool> has_come(store_.size(), false);  // by index
  for (const proto::OfferedChunk& chunk : offer.chunks) {
    come.push_back(*store_.IndexOf(chunk.key));
    has_come[come.back()] = true;
    if (std::ranges::find(chunk.ahead, member->incarnation) != chunk.ahead.end()) {
      ahead.push_back(come.back());
    }
  }
  if (was_empty) {
    // A step that all of them have is complete, also if it was not yet where they come from.
    const bool is_complete = ahead.size() == come.size();
    member->last_step = there.last_step + (is_complete ? 1 : 0);
    member->counted_step = member->last_step;
    member->may_skip = there.may_skip;
    member->restored = is_complete ? std::vector<size_t>() : std::move(ahead);
    member->intake = Intake();
    return;
  }
  // Those of them that have a step.
  const auto with = [&](Step step) {
    return step <= there.last_step       ? come
           : step == there.last_step + 1 ? ahead
                                         : std::vector<size_t>();
  };
  Intake& intake = member->intake;
  if (member->is_step_under_way()) {
    for (const size_t index : with(intake.step)) {
      MarkHere(index, store_.chunks()[index], &intake);
    }
    Recount(store_, &intake);
    return;
  }
  std::vector<size_t>& restored = member->restored;
  const Step newest = there.last_step + (ahead.empty() ? 0 : 1);
  if (newest > member->last_step) {
    if (newest > member->last_step + 1) {
      // An earlier life had the steps that are missing here; the newest is the one under way.
      member->last_step = newest - 1;
      restored.clear();
    }
    const std::vector<size_t> have = with(newest);
    restored.insert(restored.end(), have.begin(), have.end());
    return;
  }
  const std::vector<size_t> have = with(member->last_step);
  if (have.size() < come.size() && !(member->may_skip && there.may_skip)) {
    // The newest step here is under way again, for those that lack it. Where both shards have lost
    // a life, it may have been complete before.
    restored = have;
    for (size_t index = 0; index < store_.size(); ++index) {
      if (!has_come[index]) {
        restored.push_back(index);
      }
    }
    --member->last_step;
    member->may_skip = there.may_skip;
  }
}

/// All that goes by the index of a chunk. Chunks move while no mode is switched and none of bsp's
/// rounds is open.
void ShardCore::ReindexAll(const Reindexing& chunks) {
  checkpointer_.Reindex(chunks);
  model_answer_.reset();
  for (auto& [incarnation, member] : roster_.members()) {
    if (member.is_step_under_way()) {
      Reindex(chunks, store_, &member.intake);
    } else {
      member.intake = Intake();
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
