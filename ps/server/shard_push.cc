// Pushes. A step of an incarnation comes in as frames of chunks, large ones in parts, in any order,
// perhaps repeatedly and over several connections. A chunk is applied when all of it is here (bsp:
// staged). The answer goes out when the last one is here, over the connection that brought it.

#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/cpu/finite.h"
#include "ps/server/shard_core.h"

namespace ps::server {
namespace {

/// An answer does not wait for the update of so much.
constexpr size_t kLongUpdateBytes = size_t{256} << 10;

/// Of the newest push in Member::staleness: it follows some twenty pushes.
constexpr float kStalenessWeight = 0.1F;

}  // namespace

void ShardCore::OnPush(const Call& call, proto::PushRequest& push) {
  stats_.bytes_received += push.payload.size();
  const Status status = TakePush(call, push);
  frame_owner_.reset();
  if (!status.ok()) {
    stats_.pushes_fenced += status.code() == StatusCode::kStale ? 1 : 0;
    Refuse(call, status, push.step);
  }
}

Status ShardCore::TakePush(const Call& call, proto::PushRequest& push) {
  if (!is_set_up_) {
    return Status::Unavailable("this shard is not set up yet");
  }
  PS_ASSIGN(Member* const member, roster_.Admit(push.worker, push.incarnation));
  PS_TRY(ReadFrame(push));
  PS_TRY(CheckHeld(push.held, push.placement));
  if (push.step <= member->last_step) {
    RepeatPushReply(call, push, member);
    return Status::Ok();
  }
  if (store_.size() == 0) {
    return Status::Ok();  // all chunks have moved; the worker is told where by the coordinator
  }
  LookAhead(push, member->intake);
  PS_TRY(CheckOrder(push, *member));
  PS_TRY(CheckRoom(push, *member));
  TakeFrame(push, member);
  member->intake.peer = call.peer;
  member->intake.request_id = call.request_id;
  if (push.wants_pull && call.request_id >= member->newest_pull_id) {
    member->newest_pull_id = call.request_id;
    member->fused = Pull{
        call.peer,
        call.request_id,
        push.round,
        false,
        std::move(push.held),
        push.held_life,
        {},
        Generation()};
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

/// Steps of all since the member read the parameters that its next push was computed from.
uint64_t ShardCore::MissedSteps(const Member& member) const {
  const size_t behind = lr_policy_.answers_behind(mode_.mode);
  return member.reads > behind ? stats_.steps_applied - member.read_at[behind] : 0;
}

void ShardCore::BeginIntake(const proto::PushRequest& push, Member* member) {
  Intake* const intake = &member->intake;
  const double weight = static_cast<double>(push.samples) / settings_.reference_minibatch;
  intake->step = push.step;
  intake->lease = push.lease;
  intake->round = push.round;
  intake->samples = push.samples;
  intake->chunk_count =
      MayHaveMoved(push.placement) ? static_cast<uint32_t>(store_.size()) : push.chunk_count;
  const uint64_t missed = MissedSteps(*member);
  member->staleness += kStalenessWeight * (static_cast<float>(missed) - member->staleness);
  const double policy = lr_policy_.FactorOf(mode_.mode, roster_.members().size(), missed);
  intake->lr =
      static_cast<float>(ScheduledLr(settings_.optimizer, JobFraction()) * weight * policy);
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
      intake->is_rejected[index] = is_bsp() && !IsStaged(*member, push.step, chunk);
      ++intake->begun_count;
      ++intake->complete_count;
      intake->rejected_count += intake->is_rejected[index] ? 1 : 0;
    }
  }
}

/// Keeps what the frame brings, and puts the chunks that are whole now into ready_.
void ShardCore::TakeFrame(const proto::PushRequest& push, Member* member) {
  Intake& intake = member->intake;
  if (intake.step != push.step) {
    BeginIntake(push, member);
  }
  const auto has_come = [&](const FramePart& part) {
    return intake.has_come[store_.chunks()[part.chunk].first_part + part.part];
  };
  // A frame is kept as a whole by its owner, so parts of a frame with old ones are copied.
  const bool is_all_new = std::none_of(frame_.begin(), frame_.end(), has_come);
  const std::shared_ptr<const void> owner = is_all_new ? frame_owner_ : nullptr;
  ready_.clear();
  for (const FramePart& part : frame_) {
    if (has_come(part)) {
      ++stats_.chunks_duplicate;
      continue;
    }
    const Chunk& chunk = store_.chunks()[part.chunk];
    intake.has_come[chunk.first_part + part.part] = true;
    intake.begun_count += intake.parts_left[part.chunk] == chunk.part_count ? 1 : 0;
    const bool is_whole = --intake.parts_left[part.chunk] == 0;
    intake.complete_count += is_whole ? 1 : 0;
    if (!intake.is_rejected[part.chunk] && !kernels::AllFinite(part.values)) {
      intake.is_rejected[part.chunk] = true;
      ++intake.rejected_count;
      ++stats_.chunks_rejected;
      intake.unfinished.erase(part.chunk);
    }
    if (is_bsp()) {
      Stage(push, &intake, part, owner);
    } else if (!intake.is_rejected[part.chunk]) {
      Assemble(&intake, part, is_whole, owner);
    }
  }
}

/// bsp: keeps the part until its round is committed. A contribution with NaN or infinity is void.
void ShardCore::Stage(
    const proto::PushRequest& push,
    Intake* intake,
    const FramePart& part,
    const std::shared_ptr<const void>& owner) {
  const Staging::Id id(push.incarnation, push.step);
  intake->is_void = intake->is_void || intake->rejected_count > 0;
  if (intake->is_void) {
    staging_.Drop(id);
    return;
  }
  staging_.Begin(id, push.round, push.samples, store_.part_count());
  staging_.Add(
      id, store_.chunks()[part.chunk].first_part + part.part, StagedPart::Keep(part.values, owner));
}

/// async, ssp: a chunk is updated when all of it is here.
void ShardCore::Assemble(
    Intake* intake,
    const FramePart& part,
    bool is_whole,
    const std::shared_ptr<const void>& owner) {
  const uint32_t part_count = store_.chunks()[part.chunk].part_count;
  if (part_count > 1) {
    std::vector<StagedPart>& parts = intake->unfinished[part.chunk];
    parts.resize(part_count);
    parts[part.part] = StagedPart::Keep(part.values, owner);
  }
  if (is_whole) {
    ready_.push_back({part.chunk, part_count > 1 ? std::span<const float>() : part.values});
  }
}

/// async, ssp: updates the chunks that are whole.
void ShardCore::ApplyReady(Member* member) {
  Intake& intake = member->intake;
  for (const ReadyChunk& ready : ready_) {
    bool is_finite = true;
    if (const auto parts = intake.unfinished.find(ready.index); parts != intake.unfinished.end()) {
      for (uint32_t part = 0; part < parts->second.size(); ++part) {
        const std::span<const float> values = parts->second[part].values;
        is_finite = store_.Apply(ready.index, part, values, intake.lr) && is_finite;
      }
      intake.unfinished.erase(parts);
    } else {
      is_finite = store_.Apply(ready.index, 0, ready.values, intake.lr);
    }
    store_.FinishUpdate(ready.index);
    ++stats_.chunks_applied;
    stats_.chunks_overflowed += is_finite ? 0 : 1;
  }
}

/// The answer was lost, or this frame was overtaken by its own repetition.
void ShardCore::RepeatPushReply(const Call& call, proto::PushRequest& push, Member* member) {
  stats_.chunks_duplicate += frame_.size();
  if (push.step < member->last_step) {
    return;  // whoever sends the step after it has had the answer
  }
  call.out->Send(
      call.peer,
      call.request_id,
      proto::PushReply{
          push.step,
          member->last_outcome,
          member->last_rejected_chunks,
          life_,
          placement_version_});
  if (push.wants_pull && call.request_id >= member->newest_pull_id) {
    Pull pull{
        call.peer,
        call.request_id,
        push.round,
        false,
        std::move(push.held),
        push.held_life,
        {},
        {}};
    StartPull(member, std::move(pull), call.now, call.out);
  }
}

/// Everything of the step is here. What is left of its update is made before anything else happens,
/// so the worker need not wait for it.
void ShardCore::Acknowledge(const Call& call, Member* member) {
  const Intake& intake = member->intake;
  member->last_step = intake.step;
  member->may_skip = false;
  member->last_round = intake.round;
  member->last_rejected_chunks = intake.rejected_count;
  const bool is_rejected = intake.rejected_count > 0 || intake.is_void;
  member->last_outcome = is_rejected ? proto::PushOutcome::kRejected
                         : is_bsp()  ? proto::PushOutcome::kStaged
                                     : proto::PushOutcome::kApplied;
  if (call.peer == proto::PeerId()) {
    return;  // its connection is gone; a repetition is answered
  }
  call.out->Send(
      call.peer,
      call.request_id,
      proto::PushReply{
          member->last_step,
          member->last_outcome,
          member->last_rejected_chunks,
          life_,
          placement_version_});
  size_t update_bytes = 0;
  for (const ReadyChunk& ready : ready_) {
    update_bytes += store_.ValuesOf(ready.index).size_bytes();
  }
  if (update_bytes >= kLongUpdateBytes) {
    call.out->Flush(call.peer);
  }
}

void ShardCore::CompleteStep(const Call& call, Member* member) {
  const Intake& intake = member->intake;
  // A step that is complete again, with a chunk that came, counts once.
  const bool is_new = intake.step > member->counted_step;
  member->counted_step = std::max(member->counted_step, intake.step);
  const bool has_slowest_moved = is_new && roster_.Advance(member);
  if (is_bsp() && intake.rejected_count == 0 && !intake.is_void) {
    staging_.Complete({member->incarnation, intake.step});
  } else if (!is_bsp() && is_new && intake.rejected_count < intake.chunk_count) {
    ++stats_.steps_applied;
    stats_.samples_applied += intake.samples;
    samples_done_ += intake.samples;
    lr_policy_.OnStep(roster_.members().size());
  }
  if (member->fused) {
    Pull pull = std::move(*member->fused);
    member->fused.reset();
    if (pull.request_id >= member->newest_pull_id) {
      StartPull(member, std::move(pull), call.now, call.out);
    }
  }
  if (has_slowest_moved) {
    ReleasePulls(call.out);  // ssp: no lead is shorter otherwise
  }
}

}  // namespace ps::server
