#include "ps/server/push_frame.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "ps/codec/encoding.h"
#include "ps/proto/exchange.h"
#include "ps/proto/limits.h"

namespace ps::server {
namespace {

/// async, ssp: chunks of one step of which some parts are here and others are not. A worker sends
/// the parts of a chunk one after another, so more than two come of nothing but disorder.
constexpr uint32_t kUnfinishedMax = 4;

// What is wrong with a frame, in words. Made when a check has failed, never before.

std::string StepText(const proto::PushRequest& push) {
  return fmt::format("step {} of incarnation {}", push.step, push.incarnation.value);
}

Status NoSuchChunk(const proto::PushRequest& push, const proto::ChunkRef& ref, ShardId shard) {
  return Status::InvalidArgument(
      fmt::format("chunk {} is not on shard {}; {}", ref.key.value, shard.value, StepText(push)));
}

Status NoSuchPart(const proto::PushRequest& push, const proto::ChunkRef& ref, const Chunk& chunk) {
  return Status::InvalidArgument(fmt::format(
      "chunk {} has {} elements in {} parts; none is {} from {}; {}",
      ref.key.value,
      chunk.element_count,
      chunk.part_count,
      ref.element_count,
      ref.element_begin,
      StepText(push)));
}

/// It is averaged over many steps, where small differences count.
Status WrongEncoding(
    const proto::PushRequest& push, const proto::ChunkRef& ref, proto::PushKind kind) {
  return Status::InvalidArgument(fmt::format(
      "chunk {} comes as {}, and it is {}; {}",
      ref.key.value,
      push.encoding.ToText(),
      kind == proto::PushKind::kNothing       ? "frozen, and travels as nothing"
      : kind == proto::PushKind::kObservation ? "of observations, which travel as f32 or nothing"
                                              : "trained, and travels as what it is",
      StepText(push)));
}

Status BadRound(const proto::PushRequest& push, ShardId shard, uint64_t round) {
  return Status::InvalidArgument(fmt::format(
      "{} is for round {}; shard {} takes one step of each worker for round {}",
      StepText(push),
      push.round,
      shard.value,
      round));
}

Status Disagreement(const proto::PushRequest& push, const Intake& intake) {
  return Status::InvalidArgument(fmt::format(
      "frames of {} disagree: lease {}, {} samples, {} local steps, {} chunks; then lease {}, {} "
      "samples, {} local steps, {} chunks",
      StepText(push),
      intake.lease.value,
      intake.samples,
      intake.local_steps,
      intake.chunk_count,
      push.lease.value,
      push.samples,
      push.local_steps,
      push.chunk_count));
}

Status TooManyUnfinished(const proto::PushRequest& push, uint32_t unfinished) {
  return Status::Overloaded(fmt::format(
      "{} would have {} unfinished chunks, more than {}; the parts of a chunk are to follow each "
      "other",
      StepText(push),
      unfinished,
      kUnfinishedMax));
}

}  // namespace

Status PushFrame::Read(const proto::PushRequest& push) {
  PS_TRY(CheckHeader(push));
  PS_TRY(ReadParts(push));
  return Decode(push);
}

Status PushFrame::CheckHeader(const proto::PushRequest& push) const {
  if (push.step == 0 || push.samples == 0) {
    return Status::InvalidArgument(fmt::format(
        "{} with {} samples; steps begin at 1 and stand for at least one sample",
        StepText(push),
        push.samples));
  }
  if (push.local_steps == 0 || push.local_steps > proto::kLocalStepsMax) {
    return Status::InvalidArgument(fmt::format(
        "{} has {} local steps; allowed: 1 to {}",
        StepText(push),
        push.local_steps,
        proto::kLocalStepsMax));
  }
  // A round takes whole contributions: its mean is over the same workers for every chunk.
  const size_t chunks_min = rounds_.is_bsp() ? store_.size() : 1;
  const bool is_range_known = !store_.MayHaveMoved(push.placement);
  if (push.chunk_count == 0 ||
      (is_range_known && (push.chunk_count < chunks_min || push.chunk_count > store_.size()))) {
    return Status::InvalidArgument(fmt::format(
        "{} has {} chunks; shard {} has {}",
        StepText(push),
        push.chunk_count,
        life_.shard.value,
        store_.size()));
  }
  if (push.payload.parts.size() > 1) {
    return Status::InvalidArgument(fmt::format("the payload of {} is in pieces", StepText(push)));
  }
  return Status::Ok();
}

/// Which parts the frame has, and where: their values are as they came.
Status PushFrame::ReadParts(const proto::PushRequest& push) {
  parts_.clear();
  encoded_.clear();
  sorted_.clear();
  value_count_ = 0;
  const std::span<const std::byte> bytes = push.payload.bytes();
  uint64_t offset = 0;
  for (const proto::ChunkRef& ref : push.chunks) {
    const std::optional<size_t> index = store_.IndexOf(ref.key);
    const uint64_t size = push.encoding.SizeOf(ref.element_count);
    if (size > bytes.size() - offset) {
      return Status::InvalidArgument(
          fmt::format("the payload of {} ends within chunk {}", StepText(push), ref.key.value));
    }
    if (!index && !store_.MayHaveMoved(push.placement)) {
      return NoSuchChunk(push, ref, life_.shard);
    }
    if (!index || store_.chunks()[*index].is_leaving) {
      offset += size;
      continue;
    }
    const Chunk& chunk = store_.chunks()[*index];
    const proto::PushKind kind = proto::PushKindOf(chunk.rule, chunk.is_frozen);
    const bool is_nothing = push.encoding.kind == codec::EncodingKind::kNothing;
    if (is_nothing ? kind == proto::PushKind::kGradient
                   : push.encoding != proto::PushEncodingOf(push.encoding, kind)) {
      return WrongEncoding(push, ref, kind);
    }
    const std::optional<uint32_t> part = store_.parts().IndexOf(
        static_cast<uint64_t>(chunk.element_count), {ref.element_begin, ref.element_count});
    if (!part) {
      return NoSuchPart(push, ref, chunk);
    }
    const auto* const values = reinterpret_cast<const float*>(bytes.data() + offset);
    parts_.push_back({*index, *part, {values, ref.element_count}});
    encoded_.push_back(bytes.subspan(offset, size));
    sorted_.push_back(chunk.first_part + *part);
    value_count_ += ref.element_count;
    offset += size;
  }
  std::sort(sorted_.begin(), sorted_.end());
  const bool has_twice = std::adjacent_find(sorted_.begin(), sorted_.end()) != sorted_.end();
  if (offset != bytes.size() || has_twice || push.chunks.empty()) {
    return Status::InvalidArgument(fmt::format(
        "a frame of {} has {} bytes for {} chunks of {}{}",
        StepText(push),
        bytes.size(),
        parts_.size(),
        offset,
        has_twice ? " and one chunk twice" : ""));
  }
  return Status::Ok();
}

/// Makes the parts f32, and owner_ what keeps them. No part comes twice, so they take no more
/// memory than the shard's parameters.
Status PushFrame::Decode(const proto::PushRequest& push) {
  if (push.encoding.kind == codec::EncodingKind::kF32) {
    owner_ = push.payload.owner;
    return Status::Ok();
  }
  if (push.encoding.kind == codec::EncodingKind::kNothing) {
    ReadNothing();
    return Status::Ok();
  }
  // The memory of the frame before is taken again, unless a part of that frame is kept.
  const bool is_free = decoded_ != nullptr && decoded_.use_count() == 1;
  if (!is_free || decoded_->size() < value_count_ * sizeof(float)) {
    decoded_ = std::make_shared<Buffer>(value_count_ * sizeof(float));
  }
  std::span<float> rest = decoded_->floats();
  for (size_t i = 0; i < parts_.size(); ++i) {
    const std::span<float> values = rest.first(parts_[i].values.size());
    const Status status = codec::Decode(push.encoding, encoded_[i], values);
    if (!status.ok()) {
      return Status::InvalidArgument(fmt::format(
          "chunk {} of {}: {}",
          store_.chunks()[parts_[i].chunk].key.value,
          StepText(push),
          status.message()));
    }
    parts_[i].values = values;
    rest = rest.subspan(values.size());
  }
  owner_ = decoded_;
  return Status::Ok();
}

/// Frozen chunks have the same zeros, which nobody reads. What was observed of others is what the
/// worker has begun with: in a round that is what they are now, as long as it is open, and else
/// nothing.
void PushFrame::ReadNothing() {
  size_t longest = 0;
  for (Part& part : parts_) {
    const Chunk& chunk = store_.chunks()[part.chunk];
    if (chunk.is_frozen) {
      longest = std::max(longest, part.values.size());
      continue;
    }
    part.is_of_store = true;
    const proto::ChunkParts::Range range = store_.RangeOf(chunk, part.part);
    part.values =
        rounds_.is_bsp()
            ? store_.ValuesOf(part.chunk).subspan(range.element_begin, range.element_count)
            : std::span<const float>();
  }
  if (zeros_ == nullptr || zeros_->size() < longest * sizeof(float)) {
    zeros_ = std::make_shared<Buffer>(longest * sizeof(float));
    std::ranges::fill(zeros_->floats(), 0.0F);
  }
  for (Part& part : parts_) {
    if (store_.chunks()[part.chunk].is_frozen) {
      part.values = zeros_->floats().first(part.values.size());
    }
  }
  owner_ = zeros_;
}

Status PushFrame::CheckFits(const proto::PushRequest& push, const Member& member) {
  const Outlook outlook = LookAhead(push, member.intake);
  PS_TRY(CheckOrder(push, member, outlook));
  return CheckRoom(push, member, outlook);
}

/// Whether the frame belongs to the step that is next for this member, and fits what came of it.
Status PushFrame::CheckOrder(
    const proto::PushRequest& push, const Member& member, const Outlook& outlook) const {
  if (push.step != member.last_step + 1 && !member.may_skip) {
    return Status::InvalidArgument(fmt::format(
        "{} came after step {}; steps come one by one", StepText(push), member.last_step));
  }
  if (rounds_.is_bsp() && push.round <= rounds_.newest()) {
    return Status::Stale(fmt::format(
        "{} is for round {}, and round {} is committed",
        StepText(push),
        push.round,
        rounds_.newest()));
  }
  const uint64_t round = rounds_.is_bsp() ? rounds_.newest() + 1 : 0;
  if (push.round != round || (rounds_.is_bsp() && member.last_round == round)) {
    return BadRound(push, life_.shard, round);
  }
  const Intake& intake = member.intake;
  const bool has_begun = intake.step == push.step;
  const bool is_count_known = !store_.MayHaveMoved(push.placement);
  if (has_begun && (push.lease != intake.lease || push.samples != intake.samples ||
                    push.local_steps != intake.local_steps ||
                    (is_count_known && push.chunk_count != intake.chunk_count))) {
    return Disagreement(push, intake);
  }
  if (is_count_known && outlook.begun > push.chunk_count) {
    return Status::InvalidArgument(fmt::format(
        "frames of {} have {} chunks, not {} as they say",
        StepText(push),
        outlook.begun,
        push.chunk_count));
  }
  return Status::Ok();
}

PushFrame::Outlook PushFrame::LookAhead(const proto::PushRequest& push, const Intake& intake) {
  const bool has_begun = intake.step == push.step;
  sorted_.clear();
  for (const Part& part : parts_) {
    if (!has_begun || !intake.has_come[store_.chunks()[part.chunk].first_part + part.part]) {
      sorted_.push_back(part.chunk);
    }
  }
  std::sort(sorted_.begin(), sorted_.end());
  Outlook outlook;
  if (has_begun) {
    outlook = {intake.begun_count, intake.begun_count - intake.complete_count};
  }
  for (auto it = sorted_.begin(); it != sorted_.end();) {
    const auto end = std::upper_bound(it, sorted_.end(), *it);
    const uint32_t part_count = store_.chunks()[*it].part_count;
    const uint32_t left = has_begun ? intake.parts_left[*it] : part_count;
    const bool is_first = left == part_count;
    const bool is_last = left == static_cast<uint32_t>(end - it);
    outlook.begun += is_first ? 1 : 0;
    outlook.unfinished += is_first ? 1 : 0;
    outlook.unfinished -= is_last ? 1 : 0;
    it = end;
  }
  return outlook;
}

/// Whether what the frame brings may be kept until its round is committed, or its chunks are here.
Status PushFrame::CheckRoom(
    const proto::PushRequest& push, const Member& member, const Outlook& outlook) const {
  if (!rounds_.is_bsp()) {
    return outlook.unfinished <= kUnfinishedMax ? Status::Ok()
                                                : TooManyUnfinished(push, outlook.unfinished);
  }
  if (rounds_.staged_bytes() + value_count_ * sizeof(float) <= life_.settings.queue_bytes) {
    return Status::Ok();
  }
  const Intake& intake = member.intake;
  uint64_t new_bytes = 0;
  for (const Part& part : parts_) {
    const size_t index = store_.chunks()[part.chunk].first_part + part.part;
    const bool has_come = intake.step == push.step && intake.has_come[index];
    new_bytes += has_come ? 0 : part.values.size_bytes();
  }
  if (rounds_.staged_bytes() + new_bytes <= life_.settings.queue_bytes) {
    return Status::Ok();
  }
  return Status::Overloaded(fmt::format(
      "shard {} holds {} bytes for round {} and may hold {} (servers.queue_mib)",
      life_.shard.value,
      rounds_.staged_bytes(),
      rounds_.newest() + 1,
      life_.settings.queue_bytes));
}

}  // namespace ps::server
