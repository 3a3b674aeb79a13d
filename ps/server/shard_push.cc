// Pushes. A step of an incarnation comes in as frames of chunks, in any order, perhaps repeatedly
// and over several connections; chunks are applied (bsp: staged) as they come. The answer goes out
// when the last one is in, over the connection that brought it.

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/cpu/finite.h"
#include "ps/server/schedule.h"
#include "ps/server/shard_core.h"

namespace ps::server {
namespace {

std::string StepText(const proto::PushRequest& push) {
  return "step " + std::to_string(push.step) + " of incarnation " +
         std::to_string(push.incarnation.value);
}

}  // namespace

void ShardCore::OnPush(const Call& call, proto::PushRequest& push) {
  stats_.bytes_received += push.payload.size();
  const Status status = TakePush(call, push);
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
  PS_TRY(CheckHeld(push.held));
  if (push.step <= member->last_step) {
    RepeatPushReply(call, push, member);
    return Status::Ok();
  }
  PS_TRY(CheckOrder(push, *member));
  PS_TRY(CheckRoom(push, *member));
  TakeFrame(push, member);
  if (push.wants_pull && call.request_id >= member->newest_pull_id) {
    member->newest_pull_id = call.request_id;
    member->fused =
        Pull{call.peer, call.request_id, push.round, false, std::move(push.held), {}, Generation()};
  }
  if (member->intake.come_count == member->intake.chunk_count) {
    CompleteStep(call, member);
  }
  return Status::Ok();
}

/// Verifies what can be said of a frame by itself, and sets frame_ to its chunks.
Status ShardCore::ReadFrame(const proto::PushRequest& push) {
  if (push.step == 0 || push.samples == 0) {
    return Status::InvalidArgument(
        StepText(push) + " with " + std::to_string(push.samples) +
        " samples; steps begin at 1 and stand for at least one sample");
  }
  // A round takes whole contributions: its mean is over the same workers for every chunk.
  const size_t chunks_min = is_bsp() ? store_.size() : 1;
  if (push.chunk_count < chunks_min || push.chunk_count > store_.size() || push.chunk_count == 0) {
    return Status::InvalidArgument(
        StepText(push) + " has " + std::to_string(push.chunk_count) + " chunks; shard " +
        std::to_string(shard_.value) + " has " + std::to_string(store_.size()));
  }
  if (push.payload.parts.size() > 1) {
    return Status::InvalidArgument("the payload of " + StepText(push) + " is in pieces");
  }
  const std::span<const std::byte> bytes = push.payload.bytes();
  frame_.clear();
  sorted_.clear();
  uint64_t offset = 0;
  for (const proto::ChunkRef& ref : push.chunks) {
    const std::optional<size_t> index = store_.IndexOf(ref.key);
    const std::string name = "chunk " + std::to_string(ref.key.value);
    if (!index) {
      return Status::InvalidArgument(
          name + " is not on shard " + std::to_string(shard_.value) + "; " + StepText(push));
    }
    const int64_t element_count = store_.chunks()[*index].element_count;
    if (ref.element_count != element_count) {
      return Status::InvalidArgument(
          name + " has " + std::to_string(element_count) + " elements, not " +
          std::to_string(ref.element_count) + "; " + StepText(push));
    }
    const uint64_t size = uint64_t{ref.element_count} * sizeof(float);
    if (size > bytes.size() - offset) {
      return Status::InvalidArgument("the payload of " + StepText(push) + " ends within " + name);
    }
    const auto* values = reinterpret_cast<const float*>(bytes.data() + offset);
    frame_.push_back({*index, {values, ref.element_count}});
    sorted_.push_back(*index);
    offset += size;
  }
  std::sort(sorted_.begin(), sorted_.end());
  const bool has_twice = std::adjacent_find(sorted_.begin(), sorted_.end()) != sorted_.end();
  if (offset != bytes.size() || has_twice || frame_.empty()) {
    return Status::InvalidArgument(
        "a frame of " + StepText(push) + " has " + std::to_string(bytes.size()) + " bytes for " +
        std::to_string(frame_.size()) + " chunks of " + std::to_string(offset) +
        (has_twice ? " and one chunk twice" : ""));
  }
  return Status::Ok();
}

/// Whether the frame belongs to the step that is next for this member, and fits what came of it.
Status ShardCore::CheckOrder(const proto::PushRequest& push, const Member& member) const {
  if (push.step != member.last_step + 1) {
    return Status::InvalidArgument(
        StepText(push) + " came after step " + std::to_string(member.last_step) +
        "; steps come one by one");
  }
  if (is_bsp() && push.round <= round_) {
    return Status::Stale(
        StepText(push) + " is for round " + std::to_string(push.round) + ", and round " +
        std::to_string(round_) + " is committed");
  }
  const uint64_t round = is_bsp() ? round_ + 1 : 0;
  if (push.round != round || (is_bsp() && member.last_round == round)) {
    return Status::InvalidArgument(
        StepText(push) + " is for round " + std::to_string(push.round) + "; shard " +
        std::to_string(shard_.value) + " takes one step of each worker for round " +
        std::to_string(round));
  }
  const Intake& intake = member.intake;
  if (intake.step != push.step) {
    return Status::Ok();
  }
  uint32_t come_count = intake.come_count;
  for (const FrameChunk& chunk : frame_) {
    come_count += intake.has_come[chunk.index] ? 0 : 1;
  }
  if (push.lease != intake.lease || push.samples != intake.samples ||
      push.chunk_count != intake.chunk_count || come_count > intake.chunk_count) {
    return Status::InvalidArgument(
        "frames of " + StepText(push) + " disagree: lease " + std::to_string(intake.lease.value) +
        ", " + std::to_string(intake.samples) + " samples, " + std::to_string(intake.chunk_count) +
        " chunks; then lease " + std::to_string(push.lease.value) + ", " +
        std::to_string(push.samples) + " samples, " + std::to_string(push.chunk_count) + " chunks");
  }
  return Status::Ok();
}

/// bsp: whether the frame may be kept until its round is committed.
Status ShardCore::CheckRoom(const proto::PushRequest& push, const Member& member) const {
  if (!is_bsp() || staging_.bytes() + push.payload.size() <= queue_bytes_) {
    return Status::Ok();
  }
  uint64_t new_bytes = 0;
  for (const FrameChunk& chunk : frame_) {
    const bool has_come = member.intake.step == push.step && member.intake.has_come[chunk.index];
    new_bytes += has_come ? 0 : chunk.values.size_bytes();
  }
  if (staging_.bytes() + new_bytes <= queue_bytes_) {
    return Status::Ok();
  }
  return Status::Overloaded(
      "shard " + std::to_string(shard_.value) + " holds " + std::to_string(staging_.bytes()) +
      " bytes for round " + std::to_string(round_ + 1) + " and may hold " +
      std::to_string(queue_bytes_) + " (servers.queue_mib)");
}

void ShardCore::TakeFrame(const proto::PushRequest& push, Member* member) {
  Intake& intake = member->intake;
  const Staging::Id id(push.incarnation, push.step);
  if (intake.step != push.step) {
    const double weight = static_cast<double>(push.samples) / reference_minibatch_;
    intake.step = push.step;
    intake.lease = push.lease;
    intake.round = push.round;
    intake.samples = push.samples;
    intake.chunk_count = push.chunk_count;
    intake.lr = static_cast<float>(ScheduledLr(optimizer_, JobFraction()) * weight);
    intake.has_come.assign(store_.size(), false);
    intake.come_count = 0;
    intake.rejected_count = 0;
    if (is_bsp()) {
      staging_.Begin(id, push.round, push.samples, store_.size());
    }
  }
  const bool is_all_new = std::none_of(frame_.begin(), frame_.end(), [&](const FrameChunk& chunk) {
    return intake.has_come[chunk.index];
  });
  for (const FrameChunk& chunk : frame_) {
    if (intake.has_come[chunk.index]) {
      ++stats_.chunks_duplicate;
      continue;
    }
    intake.has_come[chunk.index] = true;
    ++intake.come_count;
    if (!kernels::AllFinite(chunk.values)) {
      ++intake.rejected_count;
      ++stats_.chunks_rejected;
    } else if (!is_bsp()) {
      store_.Apply(chunk.index, chunk.values, intake.lr);
      ++stats_.chunks_applied;
    } else if (intake.rejected_count == 0) {
      // A frame is kept as a whole by its owner, so chunks of a frame with old ones are copied.
      staging_.Add(id, chunk.index, chunk.values, is_all_new ? push.payload.owner : nullptr);
    }
  }
  if (is_bsp() && intake.rejected_count > 0) {
    staging_.Drop(id);
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
      proto::PushReply{push.step, member->last_outcome, member->last_rejected_chunks});
  if (push.wants_pull && call.request_id >= member->newest_pull_id) {
    Pull pull{call.peer, call.request_id, push.round, false, std::move(push.held), {}, {}};
    StartPull(member, std::move(pull), call.now, call.out);
  }
}

void ShardCore::CompleteStep(const Call& call, Member* member) {
  const Intake& intake = member->intake;
  const bool is_rejected = intake.rejected_count > 0;
  member->last_step = intake.step;
  member->last_round = intake.round;
  member->last_rejected_chunks = intake.rejected_count;
  member->last_outcome = is_rejected ? proto::PushOutcome::kRejected
                         : is_bsp()  ? proto::PushOutcome::kStaged
                                     : proto::PushOutcome::kApplied;
  ++member->clock;
  if (!is_bsp() && intake.rejected_count < intake.chunk_count) {
    ++stats_.steps_applied;
    stats_.samples_applied += intake.samples;
    samples_done_ += intake.samples;
  } else if (is_bsp() && !is_rejected) {
    staging_.Complete({member->incarnation, intake.step});
  }
  call.out->Send(
      call.peer,
      call.request_id,
      proto::PushReply{member->last_step, member->last_outcome, member->last_rejected_chunks});
  if (member->fused) {
    Pull pull = std::move(*member->fused);
    member->fused.reset();
    if (pull.request_id >= member->newest_pull_id) {
      StartPull(member, std::move(pull), call.now, call.out);
    }
  }
  ReleasePulls(call.out);
}

}  // namespace ps::server
