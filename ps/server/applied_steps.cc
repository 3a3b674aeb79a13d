#include "ps/server/applied_steps.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace ps::server {
namespace {

/// Marks a chunk of the step under way as here, all of it.
void MarkHere(size_t index, const Chunk& chunk, Intake* intake) {
  for (uint32_t part = 0; part < chunk.part_count; ++part) {
    intake->has_come[chunk.first_part + part] = true;
  }
  intake->parts_left[index] = 0;
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

/// Appends the indices of the chunks that were here before the offer.
void AddOthers(const OfferedSteps& offer, size_t chunk_count, std::vector<size_t>* indices) {
  for (size_t index = 0; index < chunk_count; ++index) {
    if (!offer.HasCome(index)) {
      indices->push_back(index);
    }
  }
}

}  // namespace

OfferedSteps::OfferedSteps(const proto::ChunksOffer& offer, const ChunkStore& store)
    : has_come_(store.size(), false) {
  for (const proto::OfferedMember& member : offer.members) {
    members_.emplace(member.incarnation, &member);
  }
  for (const proto::OfferedChunk& chunk : offer.chunks) {
    const size_t index = *store.IndexOf(chunk.key);
    come_.push_back(index);
    has_come_[index] = true;
    for (const Incarnation incarnation : chunk.ahead) {
      std::vector<size_t>& ahead = ahead_[incarnation];
      if (ahead.empty() || ahead.back() != index) {
        ahead.push_back(index);
      }
    }
  }
}

proto::OfferedMember OfferedSteps::Of(Incarnation incarnation) const {
  const auto member = members_.find(incarnation);
  return member == members_.end() ? proto::OfferedMember{incarnation} : *member->second;
}

const std::vector<size_t>& OfferedSteps::AheadOf(Incarnation incarnation) const {
  const auto ahead = ahead_.find(incarnation);
  return ahead == ahead_.end() ? none_ : ahead->second;
}

bool AppliedSteps::HasStep(Incarnation incarnation, Step step, ChunkKey key) const {
  const auto member = roster_.members().find(incarnation);
  if (member == roster_.members().end() || !store_.IndexOf(key)) {
    return false;
  }
  const Step settled = member->second.settled_step();
  const std::vector<ChunkKey> applied = AppliedOf(member->second);
  return step <= settled ||
         (step == settled + 1 && std::ranges::find(applied, key) != applied.end());
}

/// The chunks that have the step under way, be it from a restore that nothing was pushed after.
std::vector<ChunkKey> AppliedSteps::AppliedOf(const Member& member) const {
  std::vector<ChunkKey> applied;
  if (!member.is_step_under_way()) {
    for (const size_t index : member.restored) {
      applied.push_back(store_.chunks()[index].key);
    }
    return applied;
  }
  for (size_t i = 0; i < store_.size(); ++i) {
    if (member.intake.parts_left[i] == 0) {
      applied.push_back(store_.chunks()[i].key);
    }
  }
  return applied;
}

bool AppliedSteps::IsStaged(const Member& member, Step step, const Chunk& chunk) const {
  const Staging::Contribution* const staged = staging_.Find({member.incarnation, step});
  return staged != nullptr && staged->Has(chunk.first_part, chunk.part_count);
}

std::vector<proto::MemberSteps> AppliedSteps::Saved() const {
  std::vector<proto::MemberSteps> saved;
  for (const auto& [incarnation, member] : roster_.members()) {
    saved.push_back({incarnation, member.settled_step(), AppliedOf(member)});
  }
  return saved;
}

void AppliedSteps::Restore(
    const std::vector<proto::CountedStep>& counted, const std::vector<proto::MemberSteps>& saved) {
  for (const proto::CountedStep& count : counted) {
    if (Member* const member = roster_.Find(count.incarnation); member != nullptr) {
      member->last_step = count.step;
      member->counted_step = count.step;
      member->may_skip = true;
    }
  }
  for (const proto::MemberSteps& steps : saved) {
    Member* const member = roster_.Find(steps.incarnation);
    if (member == nullptr || steps.last_step < member->last_step) {
      continue;  // what is counted is later
    }
    member->last_step = steps.last_step;
    member->counted_step = std::max(member->counted_step, steps.last_step);
    for (const ChunkKey key : steps.applied) {
      if (const std::optional<size_t> index = store_.IndexOf(key); index) {
        member->restored.push_back(*index);
      }
    }
  }
}

std::vector<bool> AppliedSteps::AheadIn(
    const std::vector<size_t>& indices, const Member& member) const {
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

void AppliedSteps::ForgetUnfinished(size_t index) {
  for (auto& [incarnation, member] : roster_.members()) {
    Intake& intake = member.intake;
    if (member.is_step_under_way() && intake.parts_left[index] != 0) {
      Forget(index, store_.chunks()[index], &intake);
      Recount(&intake);
    }
  }
}

void AppliedSteps::Take(const OfferedSteps& offer, bool was_empty) {
  for (auto& [incarnation, member] : roster_.members()) {
    if (was_empty) {
      TakeAll(offer, &member);
    } else {
      TakeSome(offer, &member);
    }
  }
}

/// There were no chunks here: what the member has done is what it has done in those that have come.
void AppliedSteps::TakeAll(const OfferedSteps& offer, Member* member) {
  const proto::OfferedMember there = offer.Of(member->incarnation);
  const std::vector<size_t>& ahead = offer.AheadOf(member->incarnation);
  // A step that all of them have is complete, also if it was not yet where they come from.
  const bool is_complete = ahead.size() == offer.come().size();
  member->last_step = there.last_step + (is_complete ? 1 : 0);
  member->counted_step = member->last_step;
  member->counted_samples = is_complete ? there.next_samples : there.last_samples;
  member->may_skip = there.may_skip;
  member->restored = is_complete ? std::vector<size_t>() : ahead;
  member->restored_samples = is_complete ? 0 : there.next_samples;
  member->intake = Intake();
  // What was said last is of a step of chunks that were here before.
  const bool is_rejected = there.is_rejected && !is_complete;
  member->last_outcome = is_rejected        ? proto::PushOutcome::kRejected
                         : rounds_.is_bsp() ? proto::PushOutcome::kStaged
                                            : proto::PushOutcome::kApplied;
  if (is_complete) {
    SettleStaged(member);
  } else if (rounds_.is_bsp()) {
    member->last_round = there.round;
  }
}

void AppliedSteps::TakeSome(const OfferedSteps& offer, Member* member) {
  const proto::OfferedMember there = offer.Of(member->incarnation);
  const std::vector<size_t>& come = offer.come();
  const std::vector<size_t>& ahead = offer.AheadOf(member->incarnation);
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
      intake.is_rejected[index] = rounds_.is_bsp() && !IsStaged(*member, intake.step, chunk);
    }
    Recount(&intake);
    return;
  }
  std::vector<size_t>& restored = member->restored;
  const Step newest = there.last_step + (ahead.empty() ? 0 : 1);
  if (newest > member->last_step) {
    if (newest > member->last_step + 1) {
      // An earlier life had the steps that are missing here; the newest is the one under way.
      member->last_step = newest - 1;
      member->last_outcome = proto::PushOutcome::kApplied;
      restored.clear();
    }
    const std::vector<size_t> have = with(newest);
    restored.insert(restored.end(), have.begin(), have.end());
    member->restored_samples = newest == there.last_step ? there.last_samples : there.next_samples;
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

void AppliedSteps::SettleStaged(Member* member) {
  if (!rounds_.is_bsp()) {
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
  member->last_round = rounds_.newest() + 1;
  member->last_outcome = is_whole ? proto::PushOutcome::kStaged : proto::PushOutcome::kRejected;
}

void AppliedSteps::DropOpenSteps() {
  for (auto& [incarnation, member] : roster_.members()) {
    member.restored.clear();
    if (member.is_step_under_way()) {
      member.intake = Intake();
    }
  }
}

void AppliedSteps::Reindex(const Reindexing& chunks) {
  for (auto& [incarnation, member] : roster_.members()) {
    if (member.is_step_under_way()) {
      Reindex(chunks, &member.intake);
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
  }
}

/// What the chunks of the step under way say, counted anew.
void AppliedSteps::Recount(Intake* intake) const {
  intake->begun_count = 0;
  intake->complete_count = 0;
  intake->rejected_count = 0;
  for (size_t i = 0; i < store_.size(); ++i) {
    intake->begun_count += intake->parts_left[i] < store_.chunks()[i].part_count ? 1 : 0;
    intake->complete_count += intake->parts_left[i] == 0 ? 1 : 0;
    intake->rejected_count += intake->is_rejected[i] ? 1 : 0;
  }
}

void AppliedSteps::Reindex(const Reindexing& chunks, Intake* intake) const {
  Intake before = *intake;
  intake->has_come.assign(store_.part_count(), false);
  intake->parts_left.clear();
  intake->is_rejected.assign(store_.size(), false);
  intake->unfinished.clear();
  for (size_t i = 0; i < store_.size(); ++i) {
    const Chunk& chunk = store_.chunks()[i];
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
                            ? static_cast<uint32_t>(store_.size())
                            : std::min(before.chunk_count, static_cast<uint32_t>(store_.size()));
  Recount(intake);
}

}  // namespace ps::server
