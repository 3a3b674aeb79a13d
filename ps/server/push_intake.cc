#include "ps/server/push_intake.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "kernels/cpu/finite.h"

namespace ps::server {
namespace {

/// An answer does not wait for the update of so much.
constexpr size_t kLongUpdateBytes = size_t{256} << 10;

/// Weight of the newest push in Member::staleness, which follows some twenty pushes.
constexpr float kStalenessWeight = 0.1F;

/// For the values after the push's step.
Pull FusedPull(const Call& call, proto::PushRequest* push) {
  Pull pull = Pull::Of(call.peer, call.request_id, std::move(push->held), push->held_life);
  pull.min_round = push->round;
  pull.encoding = push->pull_encoding;
  return pull;
}

}  // namespace

PushIntake::PushIntake(
    const Life& life,
    ChunkStore& store,
    Roster& roster,
    Staging& staging,
    const Rounds& rounds,
    LrSchedule& schedule,
    AppliedSteps& steps,
    PullQueue& pulls,
    proto::ShardStats& counters)
    : life_(life),
      store_(store),
      roster_(roster),
      staging_(staging),
      rounds_(rounds),
      schedule_(schedule),
      steps_(steps),
      pulls_(pulls),
      counters_(counters),
      frame_(life, store, rounds) {}

void PushIntake::OnPush(const Call& call, proto::PushRequest& push) {
  counters_.bytes_received += push.payload.size();
  const Status status = Take(call, push);
  frame_.Release();
  if (!status.ok()) {
    counters_.pushes_fenced += status.code() == StatusCode::kStale ? 1 : 0;
    call.Refuse(status, push.step);
  }
}

Status PushIntake::Take(const Call& call, proto::PushRequest& push) {
  PS_TRY(life_.CheckSetUp());
  PS_ASSIGN(Member* const member, roster_.Admit(push.worker, push.incarnation));
  PS_TRY(frame_.Read(push));
  PS_TRY(pulls_.CheckHeld(push.held, push.placement));
  if (push.step <= member->last_step) {
    RepeatAnswer(call, push, member);
    return Status::Ok();
  }
  if (store_.size() == 0) {
    return Status::Ok();  // all chunks have moved; the worker is told where by the coordinator
  }
  PS_TRY(frame_.CheckFits(push, *member));
  TakeFrame(push, member);
  member->intake.peer = call.peer;
  member->intake.request_id = call.request_id;
  if (push.wants_pull && pulls_.Expect(push.incarnation, call.request_id)) {
    member->intake.fused = FusedPull(call, &push);
  }
  const bool is_complete = member->intake.complete_count == member->intake.chunk_count;
  if (is_complete) {
    Acknowledge(call, member);
  }
  ApplyReady(member);
  if (is_complete) {
    CompleteStep(call, member);
  }
  return Status::Ok();
}

void PushIntake::BeginStep(const proto::PushRequest& push, Member* member) {
  Intake* const intake = &member->intake;
  intake->step = push.step;
  intake->lease = push.lease;
  intake->round = push.round;
  intake->samples = push.samples;
  intake->local_steps = push.local_steps;
  intake->chunk_count =
      store_.MayHaveMoved(push.placement) ? static_cast<uint32_t>(store_.size()) : push.chunk_count;
  const proto::Mode mode = rounds_.mode().mode;
  const uint64_t missed =
      pulls_.MissedSteps(member->incarnation, schedule_.policy().answers_behind(mode));
  member->staleness += kStalenessWeight * (static_cast<float>(missed) - member->staleness);
  intake->lr =
      schedule_.PushRate(mode, roster_.members().size(), {push.samples, push.local_steps}, missed);
  intake->has_come.assign(store_.part_count(), false);
  intake->is_rejected.assign(store_.size(), false);
  intake->begun_count = 0;
  intake->complete_count = 0;
  intake->rejected_count = 0;
  intake->is_void = false;
  intake->unfinished.clear();
  intake->parts_left.clear();
  for (const Chunk& chunk : store_.chunks()) {
    intake->parts_left.push_back(chunk.part_count);
  }
  const bool is_after_restored = push.step == member->last_step + 1;
  for (const size_t index : std::exchange(member->restored, {})) {
    if (is_after_restored) {
      const Chunk& chunk = store_.chunks()[index];
      for (uint32_t part = 0; part < chunk.part_count; ++part) {
        intake->has_come[chunk.first_part + part] = true;
      }
      intake->parts_left[index] = 0;
      intake->is_rejected[index] = rounds_.is_bsp() && !steps_.IsStaged(*member, push.step, chunk);
      ++intake->begun_count;
      ++intake->complete_count;
      intake->rejected_count += intake->is_rejected[index] ? 1 : 0;
    }
  }
  member->restored_samples = 0;
}

/// Keeps what the frame brings, and puts the chunks that are whole now into ready_.
void PushIntake::TakeFrame(const proto::PushRequest& push, Member* member) {
  Intake& intake = member->intake;
  if (intake.step != push.step) {
    BeginStep(push, member);
  }
  const auto has_come = [&](const PushFrame::Part& part) {
    return intake.has_come[store_.chunks()[part.chunk].first_part + part.part];
  };
  // A frame is kept as a whole by its owner, so parts of a frame with old ones are copied.
  const bool is_all_new = std::ranges::none_of(frame_.parts(), has_come);
  const std::shared_ptr<const void> owner = is_all_new ? frame_.owner() : nullptr;
  ready_.clear();
  for (const PushFrame::Part& part : frame_.parts()) {
    if (has_come(part)) {
      ++counters_.chunks_duplicate;
      continue;
    }
    const Chunk& chunk = store_.chunks()[part.chunk];
    intake.has_come[chunk.first_part + part.part] = true;
    intake.begun_count += intake.parts_left[part.chunk] == chunk.part_count ? 1 : 0;
    const bool is_whole = --intake.parts_left[part.chunk] == 0;
    intake.complete_count += is_whole ? 1 : 0;
    if (!intake.is_rejected[part.chunk] && !chunk.is_frozen && !kernels::AllFinite(part.values)) {
      intake.is_rejected[part.chunk] = true;
      ++intake.rejected_count;
      ++counters_.chunks_rejected;
      intake.unfinished.erase(part.chunk);
    }
    if (rounds_.is_bsp()) {
      Stage(push, &intake, part, owner);
    } else if (!intake.is_rejected[part.chunk]) {
      Assemble(&intake, part, is_whole, owner);
    }
  }
}

/// bsp: keeps the part until its round is committed. A contribution with NaN or infinity is void.
void PushIntake::Stage(
    const proto::PushRequest& push,
    Intake* intake,
    const PushFrame::Part& part,
    const std::shared_ptr<const void>& owner) {
  const Staging::Id id(push.incarnation, push.step);
  intake->is_void = intake->is_void || intake->rejected_count > 0;
  if (intake->is_void) {
    staging_.Drop(id);
    return;
  }
  staging_.Begin(id, push.round, push.samples, store_.part_count());
  staging_.Add(
      id,
      store_.chunks()[part.chunk].first_part + part.part,
      StagedPart::Keep(part.values, part.is_of_store ? nullptr : owner));
}

/// async, ssp: a chunk is updated when all of it is here.
void PushIntake::Assemble(
    Intake* intake,
    const PushFrame::Part& part,
    bool is_whole,
    const std::shared_ptr<const void>& owner) {
  const uint32_t part_count = store_.chunks()[part.chunk].part_count;
  if (part_count > 1) {
    std::vector<StagedPart>& parts = intake->unfinished[part.chunk];
    parts.resize(part_count);
    if (!part.values.empty()) {  // else it stays as it is
      parts[part.part] = StagedPart::Keep(part.values, owner);
    }
  }
  if (is_whole) {
    ready_.push_back({part.chunk, part_count > 1 ? std::span<const float>() : part.values});
  }
}

/// async, ssp: updates the chunks that are whole.
void PushIntake::ApplyReady(Member* member) {
  Intake& intake = member->intake;
  const UpdateRate rate{intake.lr, schedule_.ObservedSteps({intake.samples, intake.local_steps})};
  for (const ReadyChunk& ready : ready_) {
    parts_.clear();
    const auto unfinished = intake.unfinished.find(ready.index);
    if (unfinished == intake.unfinished.end()) {
      parts_.push_back(ready.values);
    } else {
      std::ranges::transform(unfinished->second, std::back_inserter(parts_), &StagedPart::values);
    }
    const bool is_finite = store_.ApplyParts(ready.index, parts_, rate);
    if (unfinished != intake.unfinished.end()) {
      intake.unfinished.erase(unfinished);
    }
    store_.FinishUpdate(ready.index);
    ++counters_.chunks_applied;
    counters_.chunks_overflowed += is_finite ? 0 : 1;
  }
}

/// The answer was lost, or this frame was overtaken by its own repetition.
void PushIntake::RepeatAnswer(const Call& call, proto::PushRequest& push, Member* member) {
  counters_.chunks_duplicate += frame_.parts().size();
  if (push.step < member->last_step) {
    return;  // whoever sends the step after it has had the answer
  }
  Answer(call, *member);
  if (push.wants_pull) {
    pulls_.Start(*member, FusedPull(call, &push), call.now, call.out);
  }
}

void PushIntake::Answer(const Call& call, const Member& member) const {
  call.Answer(proto::PushReply{
      member.last_step,
      member.last_outcome,
      member.last_rejected_chunks,
      life_.number,
      store_.placement()});
}

/// Everything of the step is here. What is left of its update is made before anything else happens,
/// so the worker need not wait for it.
void PushIntake::Acknowledge(const Call& call, Member* member) {
  const Intake& intake = member->intake;
  member->last_step = intake.step;
  member->may_skip = false;
  member->last_round = intake.round;
  member->last_rejected_chunks = intake.rejected_count;
  const bool is_rejected = intake.rejected_count > 0 || intake.is_void;
  member->last_outcome = is_rejected        ? proto::PushOutcome::kRejected
                         : rounds_.is_bsp() ? proto::PushOutcome::kStaged
                                            : proto::PushOutcome::kApplied;
  if (call.peer == proto::PeerId()) {
    return;  // its connection is gone; a repetition is answered
  }
  Answer(call, *member);
  size_t update_bytes = 0;
  for (const ReadyChunk& ready : ready_) {
    update_bytes += store_.ValuesOf(ready.index).size_bytes();
  }
  if (update_bytes >= kLongUpdateBytes) {
    call.out->Flush(call.peer);
  }
}

void PushIntake::CompleteStep(const Call& call, Member* member) {
  const Intake& intake = member->intake;
  // A step that is complete again, with a chunk that came, counts once.
  const bool is_new = intake.step > member->counted_step;
  const bool has_slowest_moved = is_new && roster_.Advance(member);
  if (rounds_.is_bsp() && intake.rejected_count == 0 && !intake.is_void) {
    staging_.Complete({member->incarnation, intake.step});
  }
  if (is_new) {
    const bool is_applied = !rounds_.is_bsp() && intake.rejected_count < intake.chunk_count;
    Count(intake.step, is_applied ? intake.samples : 0, member);
  }
  if (std::optional<Pull> pull = std::exchange(member->intake.fused, std::nullopt); pull) {
    pulls_.Start(*member, std::move(*pull), call.now, call.out);
  }
  if (has_slowest_moved) {
    pulls_.Release(call.out);  // ssp: no lead is shorter otherwise
  }
}

/// The step is complete for the first time. `samples`: that were applied; 0: bsp, or none.
void PushIntake::Count(Step step, uint32_t samples, Member* member) {
  member->counted_step = step;
  member->counted_samples = samples;
  if (samples > 0) {
    ++counters_.steps_applied;
    counters_.samples_applied += samples;
    schedule_.Count(samples, roster_.members().size());
  }
}

void PushIntake::CompleteSteps(TimePoint now, proto::Outbox* out) {
  if (store_.size() == 0) {
    return;
  }
  for (auto& [incarnation, member] : roster_.members()) {
    const Intake& intake = member.intake;
    if (!member.is_step_under_way()) {
      CompleteRestored(&member, out);
    } else if (intake.complete_count == intake.chunk_count) {
      const Call call{intake.peer, intake.request_id, now, out};
      ready_.clear();
      Acknowledge(call, &member);
      CompleteStep(call, &member);
    }
  }
}

/// All chunks that are left have the step after the last one, and nobody pushes it any more.
void PushIntake::CompleteRestored(Member* member, proto::Outbox* out) {
  if (member->restored.size() < store_.size()) {
    return;
  }
  member->restored.clear();
  ++member->last_step;
  member->last_outcome = proto::PushOutcome::kApplied;
  member->last_rejected_chunks = 0;
  steps_.SettleStaged(member);
  if (member->last_step > member->counted_step) {
    Count(member->last_step, rounds_.is_bsp() ? 0 : member->restored_samples, member);
    if (roster_.Advance(member)) {
      pulls_.Release(out);
    }
  }
}

void PushIntake::OnPeerClosed(proto::PeerId peer) {
  for (auto& [incarnation, member] : roster_.members()) {
    Intake& intake = member.intake;
    if (intake.peer == peer) {
      intake.peer = proto::PeerId();
    }
    if (intake.fused && intake.fused->peer == peer) {
      intake.fused.reset();
    }
  }
}

uint64_t PushIntake::unfinished_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [incarnation, member] : roster_.members()) {
    for (const auto& [chunk, parts] : member.intake.unfinished) {
      for (const StagedPart& part : parts) {
        bytes += part.values.size_bytes();
      }
    }
  }
  return bytes;
}

}  // namespace ps::server
