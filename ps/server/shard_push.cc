// Pushes. A step of an incarnation comes in as frames of chunks, large ones in parts, in any order,
// perhaps repeatedly and over several connections. A chunk is applied when all of it is here (bsp:
// staged). The answer goes out when the last one is here, over the connection that brought it.

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/cpu/finite.h"
#include "ps/server/shard_core.h"

namespace ps::server {
namespace {

/// async, ssp: chunks of one step of which some parts are here and others are not. A worker sends
/// the parts of a chunk one after another, so more than two come of nothing but disorder.
constexpr uint32_t kUnfinishedMax = 4;
/// An answer does not wait for the update of so much.
constexpr size_t kLongUpdateBytes = size_t{256} << 10;

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
  const bool is_complete = member->intake.complete_count == member->intake.chunk_count;
  if (is_complete) {
    Acknowledge(call, member);
  }
  ApplyReady(*member);
  if (is_complete) {
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
    const Chunk& chunk = store_.chunks()[*index];
    const std::optional<uint32_t> part = store_.parts().IndexOf(
        static_cast<uint64_t>(chunk.element_count), {ref.element_begin, ref.element_count});
    if (!part) {
      return Status::InvalidArgument(
          name + " has " + std::to_string(chunk.element_count) + " elements in " +
          std::to_string(chunk.part_count) + " parts; none is " +
          std::to_string(ref.element_count) + " from " + std::to_string(ref.element_begin) + "; " +
          StepText(push));
    }
    const uint64_t size = uint64_t{ref.element_count} * sizeof(float);
    if (size > bytes.size() - offset) {
      return Status::InvalidArgument("the payload of " + StepText(push) + " ends within " + name);
    }
    const auto* values = reinterpret_cast<const float*>(bytes.data() + offset);
    frame_.push_back({*index, *part, {values, ref.element_count}});
    sorted_.push_back(chunk.first_part + *part);
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
Status ShardCore::CheckOrder(const proto::PushRequest& push, const Member& member) {
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
  if (push.lease != intake.lease || push.samples != intake.samples ||
      push.chunk_count != intake.chunk_count || BegunWith(intake) > intake.chunk_count) {
    return Status::InvalidArgument(
        "frames of " + StepText(push) + " disagree: lease " + std::to_string(intake.lease.value) +
        ", " + std::to_string(intake.samples) + " samples, " + std::to_string(intake.chunk_count) +
        " chunks; then lease " + std::to_string(push.lease.value) + ", " +
        std::to_string(push.samples) + " samples, " + std::to_string(push.chunk_count) + " chunks");
  }
  return Status::Ok();
}

/// Chunks that will have begun with the frame in hand.
uint32_t ShardCore::BegunWith(const Intake& intake) {
  sorted_.clear();
  for (const FramePart& part : frame_) {
    if (intake.parts_left[part.chunk] == store_.chunks()[part.chunk].part_count) {
      sorted_.push_back(part.chunk);
    }
  }
  std::sort(sorted_.begin(), sorted_.end());
  const auto end = std::unique(sorted_.begin(), sorted_.end());
  return intake.begun_count + static_cast<uint32_t>(end - sorted_.begin());
}

/// Whether what the frame brings may be kept until its round is committed, or its chunks are here.
Status ShardCore::CheckRoom(const proto::PushRequest& push, const Member& member) {
  const Intake& intake = member.intake;
  if (!is_bsp()) {
    const uint32_t unfinished = intake.begun_count - intake.complete_count;
    if (intake.step != push.step || unfinished < kUnfinishedMax ||
        BegunWith(intake) == intake.begun_count) {
      return Status::Ok();
    }
    return Status::Overloaded(
        StepText(push) + " has " + std::to_string(unfinished) + " unfinished chunks on shard " +
        std::to_string(shard_.value) + "; the parts of a chunk are to follow each other");
  }
  if (staging_.bytes() + push.payload.size() <= settings_.queue_bytes) {
    return Status::Ok();
  }
  uint64_t new_bytes = 0;
  for (const FramePart& part : frame_) {
    const size_t index = store_.chunks()[part.chunk].first_part + part.part;
    const bool has_come = intake.step == push.step && intake.has_come[index];
    new_bytes += has_come ? 0 : part.values.size_bytes();
  }
  if (staging_.bytes() + new_bytes <= settings_.queue_bytes) {
    return Status::Ok();
  }
  return Status::Overloaded(
      "shard " + std::to_string(shard_.value) + " holds " + std::to_string(staging_.bytes()) +
      " bytes for round " + std::to_string(round_ + 1) + " and may hold " +
      std::to_string(settings_.queue_bytes) + " (servers.queue_mib)");
}

void ShardCore::BeginIntake(const proto::PushRequest& push, Intake* intake) {
  const double weight = static_cast<double>(push.samples) / settings_.reference_minibatch;
  intake->step = push.step;
  intake->lease = push.lease;
  intake->round = push.round;
  intake->samples = push.samples;
  intake->chunk_count = push.chunk_count;
  intake->lr = static_cast<float>(ScheduledLr(settings_.optimizer, JobFraction()) * weight);
  intake->has_come.assign(store_.part_count(), false);
  intake->is_rejected.assign(store_.size(), false);
  intake->begun_count = 0;
  intake->complete_count = 0;
  intake->rejected_count = 0;
  intake->parts_left.clear();
  for (const Chunk& chunk : store_.chunks()) {
    intake->parts_left.push_back(chunk.part_count);
  }
}

/// Keeps what the frame brings, and puts the chunks that are whole now into ready_.
void ShardCore::TakeFrame(const proto::PushRequest& push, Member* member) {
  Intake& intake = member->intake;
  const Staging::Id id(push.incarnation, push.step);
  if (intake.step != push.step) {
    BeginIntake(push, &intake);
  }
  const auto has_come = [&](const FramePart& part) {
    return intake.has_come[store_.chunks()[part.chunk].first_part + part.part];
  };
  // A frame is kept as a whole by its owner, so parts of a frame with old ones are copied.
  const bool is_all_new = std::none_of(frame_.begin(), frame_.end(), has_come);
  ready_.clear();
  for (const FramePart& part : frame_) {
    if (has_come(part)) {
      ++stats_.chunks_duplicate;
      continue;
    }
    const Chunk& chunk = store_.chunks()[part.chunk];
    const size_t index = chunk.first_part + part.part;
    intake.has_come[index] = true;
    intake.begun_count += intake.parts_left[part.chunk] == chunk.part_count ? 1 : 0;
    const bool is_whole = --intake.parts_left[part.chunk] == 0;
    intake.complete_count += is_whole ? 1 : 0;
    if (!intake.is_rejected[part.chunk] && !kernels::AllFinite(part.values)) {
      intake.is_rejected[part.chunk] = true;
      ++intake.rejected_count;
      ++stats_.chunks_rejected;
      staging_.Release(id, chunk.first_part, chunk.part_count);
    }
    const bool is_wanted = is_bsp() ? intake.rejected_count == 0 : !intake.is_rejected[part.chunk];
    if (!is_wanted) {
      continue;
    }
    if (is_bsp() || chunk.part_count > 1) {
      staging_.Begin(id, push.round, push.samples, store_.part_count());
      staging_.Add(id, index, part.values, is_all_new ? push.payload.owner : nullptr);
    }
    if (!is_bsp() && is_whole) {
      ready_.push_back({part.chunk, chunk.part_count > 1 ? std::span<const float>() : part.values});
    }
  }
  if (is_bsp() && intake.rejected_count > 0) {
    staging_.Drop(id);
  }
}

/// async, ssp: updates the chunks that are whole.
void ShardCore::ApplyReady(const Member& member) {
  const Staging::Id id(member.incarnation, member.intake.step);
  for (const ReadyChunk& ready : ready_) {
    const Chunk& chunk = store_.chunks()[ready.index];
    if (chunk.part_count == 1) {
      store_.Apply(ready.index, 0, ready.values, member.intake.lr);
    } else {
      const Staging::Contribution& staged = *staging_.Find(id);
      for (uint32_t part = 0; part < chunk.part_count; ++part) {
        const std::span<const float> values = staged.parts[chunk.first_part + part].values;
        store_.Apply(ready.index, part, values, member.intake.lr);
      }
      staging_.Release(id, chunk.first_part, chunk.part_count);
    }
    store_.FinishUpdate(ready.index);
    ++stats_.chunks_applied;
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

/// Everything of the step is here. What is left of its update is made before anything else happens,
/// so the worker need not wait for it.
void ShardCore::Acknowledge(const Call& call, Member* member) {
  const Intake& intake = member->intake;
  member->last_step = intake.step;
  member->last_round = intake.round;
  member->last_rejected_chunks = intake.rejected_count;
  member->last_outcome = intake.rejected_count > 0 ? proto::PushOutcome::kRejected
                         : is_bsp()                ? proto::PushOutcome::kStaged
                                                   : proto::PushOutcome::kApplied;
  call.out->Send(
      call.peer,
      call.request_id,
      proto::PushReply{member->last_step, member->last_outcome, member->last_rejected_chunks});
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
  const Staging::Id id(member->incarnation, intake.step);
  ++member->clock;
  if (!is_bsp()) {
    staging_.Drop(id);
  } else if (intake.rejected_count == 0) {
    staging_.Complete(id);
  }
  if (!is_bsp() && intake.rejected_count < intake.chunk_count) {
    ++stats_.steps_applied;
    stats_.samples_applied += intake.samples;
    samples_done_ += intake.samples;
  }
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
