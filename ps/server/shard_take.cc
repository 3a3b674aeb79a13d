// Chunks that come from another shard while training goes on (shard_give.cc).

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ps/server/shard_core.h"

namespace ps::server {
namespace {

/// Marks a chunk of the step under way as here, all of it.
void MarkHere(size_t index, const Chunk& chunk, Intake* intake) {
  for (uint32_t part = 0; part < chunk.part_count; ++part) {
    intake->has_come[chunk.first_part + part] = true;
  }
  intake->parts_left[index] = 0;
}

/// For the gradients that come with the chunks. A giver may have at most `bytes_max` of them.
Status MakeRoom(const std::vector<proto::StagedStep>& staged, uint64_t bytes_max, Taking* taking) {
  uint64_t bytes = 0;
  for (const proto::StagedStep& step : staged) {
    auto& gradients = taking->gradients.emplace_back();
    for (const ChunkKey key : step.keys) {
      const Chunk& chunk = *std::ranges::lower_bound(taking->chunks, key, {}, &Chunk::key);
      bytes += chunk.value.size();
      if (bytes > bytes_max) {
        return Status::InvalidArgument(
            "an offer has more staged gradients than a shard may have (servers.queue_mib)");
      }
      gradients[key].resize(chunk.part_count);
      taking->parts_left += chunk.part_count;
    }
  }
  return Status::Ok();
}

/// Appends the indices of the chunks that were here before the offer.
void AddOthers(const OfferedSteps& offer, size_t chunk_count, std::vector<size_t>* indices) {
  for (size_t index = 0; index < chunk_count; ++index) {
    if (!offer.HasCome(index)) {
      indices->push_back(index);
    }
  }
}

}  // namespace

Status ShardCore::CheckOffer(const proto::ChunksOffer& offer) const {
  if (!is_set_up_ || commit_ || offer.to_life != life_ || roster_.generation() < offer.generation) {
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
  for (const proto::StagedStep& step : offer.staged) {
    const bool is_sane =
        is_bsp() && step.step > 0 && step.samples > 0 && !step.keys.empty() &&
        step.round == round_ + 1 &&
        std::ranges::adjacent_find(step.keys, std::greater_equal<>()) == step.keys.end() &&
        std::ranges::includes(offer.chunks, step.keys, {}, &proto::OfferedChunk::key);
    if (!is_sane) {
      return Status::InvalidArgument(fmt::format(
          "an offer has step {} of incarnation {} staged for round {}, and it makes no sense in "
          "round {}",
          step.step,
          step.incarnation.value,
          step.round,
          round_ + 1));
    }
  }
  const auto is_not_after = [](const proto::StagedStep& a, const proto::StagedStep& b) {
    return std::pair(a.incarnation, a.step) >= std::pair(b.incarnation, b.step);
  };
  return std::ranges::adjacent_find(offer.staged, is_not_after) == offer.staged.end()
             ? Status::Ok()
             : Status::InvalidArgument("the staged steps of an offer are not in their order");
}

void ShardCore::OnOffer(const Call& call, proto::ChunksOffer& offer) {
  if (is_set_up_ && offer.to_life == life_ && offer.version <= taken_version_) {
    call.out->Send(
        call.peer, call.request_id, proto::ChunksTaken{offer.version, roster_.generation()});
    return;
  }
  Status status = CheckOffer(offer);
  if (status.ok() && taking_ && taking_->peer == call.peer &&
      taking_->offer.version == offer.version && taking_->offer.staged == offer.staged &&
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
  if (status.ok()) {
    status = MakeRoom(offer.staged, settings_.queue_bytes, &taking);
  }
  if (!status.ok()) {
    Refuse(call, status, 0);
    return;
  }
  taking.peer = call.peer;
  taking.request_id = call.request_id;
  taking.offer = std::move(offer);
  taking.has_come.resize(part_count * taking.buffers_max());
  taking_ = std::move(taking);
}

void ShardCore::OnChunkPart(const Call& call, proto::ChunkPart& part) {
  stats_.bytes_received += part.payload.size();
  if (!taking_ || taking_->peer != call.peer || taking_->offer.version != part.version) {
    return;  // of an offer that was refused, or given up
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
    Refuse(
        call,
        Status::InvalidArgument(
            fmt::format("a part of chunk {} is none of what was offered", first.key.value)),
        0);
    return;
  }
  const size_t place = (chunk->first_part + *number) * taking_->buffers_max() + part.buffer;
  if (taking_->has_come[place]) {
    return;
  }
  taking_->Take(part, first, *number, &*chunk);
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
  TakeStaged(taking, was_empty);
  const OfferedSteps steps(taking.offer, store_);
  for (auto& [incarnation, member] : roster_.members()) {
    TakeSteps(steps, was_empty, &member);
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

/// bsp: the gradients that came with the chunks wait here now. Of who is fenced, only a step that
/// is complete here may still be part of the round.
void ShardCore::TakeStaged(const Taking& taking, bool was_empty) {
  for (size_t i = 0; i < taking.offer.staged.size(); ++i) {
    const proto::StagedStep& step = taking.offer.staged[i];
    const Staging::Id id(step.incarnation, step.step);
    if (!was_empty && roster_.Find(step.incarnation) == nullptr && staging_.Find(id) == nullptr) {
      continue;
    }
    staging_.Begin(id, step.round, step.samples, store_.part_count());
    for (const auto& [key, parts] : taking.gradients[i]) {
      const Chunk& chunk = store_.chunks()[*store_.IndexOf(key)];
      for (uint32_t part = 0; part < chunk.part_count; ++part) {
        staging_.Add(id, chunk.first_part + part, parts[part]);
      }
    }
    if (was_empty && staging_.Find(id)->is_whole()) {
      staging_.Complete(id);
    }
  }
}

/// What the member has done in the chunks that have come. A worker makes one step after the other,
/// so a chunk is at most one step behind the others or ahead of them.
void ShardCore::TakeSteps(const OfferedSteps& offer, bool was_empty, Member* member) {
  const proto::OfferedMember there = offer.Of(member->incarnation);
  const std::vector<size_t>& come = offer.come();
  const std::vector<size_t>& ahead = offer.AheadOf(member->incarnation);
  if (was_empty) {
    // A step that all of them have is complete, also if it was not yet where they come from.
    const bool is_complete = ahead.size() == come.size();
    member->last_step = there.last_step + (is_complete ? 1 : 0);
    member->counted_step = member->last_step;
    member->may_skip = there.may_skip;
    member->restored = is_complete ? std::vector<size_t>() : ahead;
    member->intake = Intake();
    if (is_complete) {
      SettleStaged(member);
    } else if (is_bsp()) {
      member->last_round = there.round;
      member->last_outcome =
          there.is_rejected ? proto::PushOutcome::kRejected : proto::PushOutcome::kStaged;
    }
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
      const Chunk& chunk = store_.chunks()[index];
      MarkHere(index, chunk, &intake);
      intake.is_rejected[index] = is_bsp() && !IsStaged(*member, intake.step, chunk);
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
  if (have.size() < come.size()) {
    if (!restored.empty() || member->last_step < member->counted_step) {
      // The worker has begun the step after it, so it has made this one everywhere: the shard that
      // lacks it has lost it with an earlier life.
      return;
    }
    // The newest step here is under way again, for those that lack it. An earlier life of their
    // shard may have had it: then the worker goes on with the step after.
    restored = have;
    AddOthers(offer, store_.size(), &restored);
    staging_.Reopen({member->incarnation, member->last_step});
    --member->last_step;
    member->last_round = 0;
    member->may_skip = there.may_skip;
  } else if (staging_.Find({member->incarnation, member->last_step}) != nullptr) {
    SettleStaged(member);
  }
}

}  // namespace ps::server
