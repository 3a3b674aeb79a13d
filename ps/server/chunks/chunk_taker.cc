#include "ps/server/chunks/chunk_taker.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

namespace ps::server {

ChunkTaker::ChunkTaker(
    const Life& life,
    ChunkStore& store,
    Roster& roster,
    Staging& staging,
    const Rounds& rounds,
    LrSchedule& schedule,
    AppliedSteps& steps,
    proto::ShardStats& counters,
    const Logger& log)
    : life_(life),
      store_(store),
      roster_(roster),
      staging_(staging),
      rounds_(rounds),
      schedule_(schedule),
      steps_(steps),
      counters_(counters),
      log_(log) {}

void ChunkTaker::Reset() {
  taking_.reset();
  taken_version_ = 0;
}

Status ChunkTaker::Check(const proto::ChunksOffer& offer) const {
  if (!life_.is_set_up || rounds_.is_committing() || offer.to_life != life_.number ||
      roster_.generation() < offer.generation) {
    return Status::Unavailable(fmt::format(
        "shard {} is in life {} with membership {} and takes no chunks of life {} and membership "
        "{} yet",
        life_.shard.value,
        life_.number,
        roster_.generation().value,
        offer.to_life,
        offer.generation.value));
  }
  const auto is_before = [](const auto& a, const auto& b) { return a.key >= b.key; };
  if (offer.chunks.empty() ||
      std::ranges::adjacent_find(offer.chunks, is_before) != offer.chunks.end()) {
    return Status::InvalidArgument("an offer has no chunks, or not in their order");
  }
  return CheckStaged(offer);
}

Status ChunkTaker::CheckStaged(const proto::ChunksOffer& offer) const {
  for (const proto::StagedStep& step : offer.staged) {
    const bool is_sane =
        rounds_.is_bsp() && step.step > 0 && step.samples > 0 && !step.keys.empty() &&
        step.round == rounds_.newest() + 1 &&
        std::ranges::adjacent_find(step.keys, std::greater_equal<>()) == step.keys.end() &&
        std::ranges::includes(offer.chunks, step.keys, {}, &proto::OfferedChunk::key);
    if (!is_sane) {
      return Status::InvalidArgument(fmt::format(
          "an offer has step {} of incarnation {} staged for round {}, and it makes no sense in "
          "round {}",
          step.step,
          step.incarnation.value,
          step.round,
          rounds_.newest() + 1));
    }
  }
  const auto is_not_after = [](const proto::StagedStep& a, const proto::StagedStep& b) {
    return std::pair(a.incarnation, a.step) >= std::pair(b.incarnation, b.step);
  };
  return std::ranges::adjacent_find(offer.staged, is_not_after) == offer.staged.end()
             ? Status::Ok()
             : Status::InvalidArgument("the staged steps of an offer are not in their order");
}

bool ChunkTaker::Taking::IsSame(const proto::ChunksOffer& other) const {
  return offer.version == other.version && offer.staged == other.staged &&
         std::ranges::equal(chunks, other.chunks, {}, &Chunk::key, &proto::OfferedChunk::key);
}

Status ChunkTaker::Taking::MakeRoom(
    const std::vector<proto::StagedStep>& staged, uint64_t bytes_max) {
  uint64_t bytes = 0;
  for (const proto::StagedStep& step : staged) {
    auto& of_step = gradients.emplace_back();
    for (const ChunkKey key : step.keys) {
      const Chunk& chunk = *std::ranges::lower_bound(chunks, key, {}, &Chunk::key);
      bytes += chunk.value.size();
      if (bytes > bytes_max) {
        return Status::InvalidArgument(
            "an offer has more staged gradients than a shard may have (servers.queue_mib)");
      }
      of_step[key].resize(chunk.part_count);
      parts_left += chunk.part_count;
    }
  }
  return Status::Ok();
}

bool ChunkTaker::Taking::IsOffered(uint32_t buffer, const Chunk& chunk) const {
  if (buffer < kBuffersMax) {
    return buffer < BuffersOf(chunk).size();
  }
  const size_t step = buffer - kBuffersMax;
  return step < gradients.size() && gradients[step].contains(chunk.key);
}

void ChunkTaker::Taking::Take(
    proto::ChunkPart& part, const proto::ChunkRef& elements, uint32_t number, Chunk* chunk) {
  const std::span<const std::byte> bytes = part.payload.bytes();
  if (part.buffer >= kBuffersMax) {
    const auto* const values = reinterpret_cast<const float*>(bytes.data());
    gradients[part.buffer - kBuffersMax].at(chunk->key)[number] =
        StagedPart::Keep({values, elements.element_count}, part.payload.owner);
    return;
  }
  Buffer& to = *BuffersOf(*chunk)[part.buffer];
  if (chunk->part_count == 1) {
    // Copied, it would fill fresh memory, and the page faults of that cost more than copying.
    if (Buffer whole = part.payload.TakeBuffer(); whole.size() > 0) {
      to = std::move(whole);
      return;
    }
  }
  std::memcpy(to.data() + elements.element_begin * sizeof(float), bytes.data(), bytes.size());
}

void ChunkTaker::OnOffer(const Call& call, proto::ChunksOffer& offer) {
  if (life_.is_set_up && offer.to_life == life_.number && offer.version <= taken_version_) {
    call.Answer(proto::ChunksTaken{offer.version, roster_.generation()});
    return;
  }
  const Status status = Check(offer);
  if (status.ok() && taking_ && taking_->peer == call.peer && taking_->IsSame(offer)) {
    taking_->offer = std::move(offer);  // of the same chunks, some of which have come
    taking_->request_id = call.request_id;
    return;
  }
  taking_.reset();
  Result<Taking> taking = status.ok() ? Begin(offer) : status;
  if (!taking.ok()) {
    call.Refuse(taking.status());
    return;
  }
  taking_ = std::move(taking).value();
  taking_->peer = call.peer;
  taking_->request_id = call.request_id;
  taking_->offer = std::move(offer);
}

Result<ChunkTaker::Taking> ChunkTaker::Begin(const proto::ChunksOffer& offer) const {
  Taking taking;
  size_t part_count = 0;
  for (const proto::OfferedChunk& offered : offer.chunks) {
    PS_ASSIGN(Chunk chunk, store_.MakeChunk(offered.key, part_count));
    chunk.version = offered.version;
    part_count += chunk.part_count;
    taking.parts_left += chunk.part_count * BuffersOf(chunk).size();
    taking.chunks.push_back(std::move(chunk));
  }
  PS_TRY(taking.MakeRoom(offer.staged, life_.settings.queue_bytes));
  taking.has_come.resize(part_count * (kBuffersMax + offer.staged.size()));
  return taking;
}

bool ChunkTaker::OnPart(const Call& call, proto::ChunkPart& part) {
  counters_.bytes_received += part.payload.size();
  if (!taking_ || taking_->peer != call.peer || taking_->offer.version != part.version) {
    return false;  // of an offer that was refused, or given up
  }
  const proto::ChunkRef first = part.chunks.size() != 1 ? proto::ChunkRef() : part.chunks.front();
  const auto chunk = std::ranges::lower_bound(taking_->chunks, first.key, {}, &Chunk::key);
  std::optional<uint32_t> number;
  if (chunk != taking_->chunks.end() && chunk->key == first.key && part.payload.parts.size() == 1 &&
      taking_->IsOffered(part.buffer, *chunk)) {
    number = store_.parts().IndexOf(
        static_cast<uint64_t>(chunk->element_count), {first.element_begin, first.element_count});
  }
  if (!number) {
    taking_.reset();
    call.Refuse(Status::InvalidArgument(
        fmt::format("a part of chunk {} is none of what was offered", first.key.value)));
    return false;
  }
  const size_t place = (chunk->first_part + *number) * taking_->buffers_max() + part.buffer;
  if (taking_->has_come[place]) {
    return false;
  }
  taking_->Take(part, first, *number, &*chunk);
  taking_->has_come[place] = true;
  return --taking_->parts_left == 0;
}

Reindexing ChunkTaker::Insert() {
  taking_->was_empty = store_.size() == 0;
  Reindexing chunks(store_);
  store_.Insert(std::move(taking_->chunks), taking_->offer.version);
  chunks.SetAfter(store_);
  return chunks;
}

void ChunkTaker::Finish(proto::Outbox* out) {
  TakeStaged();
  steps_.Take(OfferedSteps(taking_->offer, store_), taking_->was_empty);
  if (taking_->was_empty) {
    TakeProgress();
  }
  taken_version_ = taking_->offer.version;
  log_.Info("chunks_came", {{"placement", taken_version_}, {"chunks", store_.size()}});
  out->Send(
      taking_->peer, taking_->request_id, proto::ChunksTaken{taken_version_, roster_.generation()});
  taking_.reset();
}

/// bsp: the gradients that came with the chunks wait here now. Of who is fenced, only a step that
/// is complete here may still be part of the round.
void ChunkTaker::TakeStaged() {
  for (size_t i = 0; i < taking_->offer.staged.size(); ++i) {
    const proto::StagedStep& step = taking_->offer.staged[i];
    const Staging::Id id(step.incarnation, step.step);
    if (!taking_->was_empty && roster_.Find(step.incarnation) == nullptr &&
        staging_.Find(id) == nullptr) {
      continue;
    }
    staging_.Begin(id, step.round, step.samples, store_.part_count());
    for (const auto& [key, parts] : taking_->gradients[i]) {
      const Chunk& chunk = *store_.Find(key);
      for (uint32_t part = 0; part < chunk.part_count; ++part) {
        staging_.Add(id, chunk.first_part + part, parts[part]);
      }
    }
    if (taking_->was_empty && staging_.Find(id)->is_whole()) {
      staging_.Complete(id);
    }
  }
}

/// There were no chunks here: clocks and schedule go on from where the other shard is.
void ChunkTaker::TakeProgress() {
  const proto::ChunksOffer& offer = taking_->offer;
  std::map<Incarnation, Roster::Clock> clocks;
  uint64_t samples_done = offer.samples_done;
  for (const proto::OfferedMember& offered : offer.members) {
    if (const Member* const member = roster_.Find(offered.incarnation); member != nullptr) {
      // One more is complete when all that came have it.
      const Step more = member->last_step - offered.last_step;
      clocks[offered.incarnation] = {offered.clock + more, offered.is_active};
      samples_done += more * offered.next_samples;
    }
  }
  roster_.SetClocks(clocks);
  schedule_.Restore(samples_done, offer.lr_factor);
}

void ChunkTaker::OnPeerClosed(proto::PeerId peer) {
  if (taking_ && taking_->peer == peer) {
    taking_.reset();
  }
}

}  // namespace ps::server
