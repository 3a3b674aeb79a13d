#include "ps/client/pull_intake.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "ps/codec/difference.h"
#include "ps/proto/exchange.h"

namespace ps::client {

PullIntake::PullIntake(ShardId shard, std::vector<ChunkLayout::Chunk> chunks, size_t frame_bytes)
    : shard_(shard), parts_(frame_bytes), chunks_(std::move(chunks)), states_(chunks_.size()) {}

void PullIntake::Remove(ChunkKey key) {
  const auto it = std::ranges::lower_bound(chunks_, key, {}, &ChunkLayout::Chunk::key);
  const auto state = states_.begin() + (it - chunks_.begin());
  if (state->completed_by != 0 && state->completed_by >= unknown_by_) {
    CountUnknown(state->completed_by, key);
  }
  states_.erase(state);
  chunks_.erase(it);
  gone_.insert(key);
}

void PullIntake::Add(const ChunkLayout::Chunk& chunk) {
  const auto it = std::ranges::lower_bound(chunks_, chunk.key, {}, &ChunkLayout::Chunk::key);
  State state;
  state.completed_by = unknown_.contains(chunk.key) ? unknown_by_ : 0;
  states_.insert(states_.begin() + (it - chunks_.begin()), std::move(state));
  chunks_.insert(it, chunk);
  gone_.erase(chunk.key);
}

bool PullIntake::CountUnknown(uint64_t request_id, ChunkKey key) {
  if (unknown_by_ != request_id) {
    unknown_.clear();
    unknown_by_ = request_id;
  }
  return unknown_.insert(key).second;
}

void PullIntake::TakeEncodings(const ChunkLayout& layout) {
  for (ChunkLayout::Chunk& chunk : chunks_) {
    chunk = *layout.Find(chunk.key);
  }
}

std::vector<proto::ChunkVersion> PullIntake::Held(bool exact) const {
  std::vector<proto::ChunkVersion> held;
  for (size_t i = 0; i < chunks_.size(); ++i) {
    const State& state = states_[i];
    if (state.is_held && !(exact && state.is_rounded) && !state.is_base_lost()) {
      held.push_back({chunks_[i].key, state.version});
    }
  }
  return held;
}

std::optional<PullIntake::Place> PullIntake::PlaceOf(const proto::PullReply::Chunk& entry) const {
  const auto it = std::ranges::lower_bound(chunks_, entry.key, {}, &ChunkLayout::Chunk::key);
  if (it == chunks_.end() || it->key != entry.key) {
    return std::nullopt;
  }
  const auto part = parts_.IndexOf(it->element_count, {entry.element_begin, entry.element_count});
  if (!part) {
    return std::nullopt;
  }
  return Place{static_cast<size_t>(it - chunks_.begin()), *part};
}

PullIntake::Use PullIntake::UseOf(const State& state, uint32_t part, const Arrival& arrival) {
  if (arrival.number == 0) {
    return state.IsOlderThan(arrival.version, arrival.is_rounded) ? Use::kNewer : Use::kOlder;
  }
  const uint64_t held = part < state.parts.size() ? state.parts[part].number : 0;
  if (arrival.number <= held) {
    return Use::kOlder;  // it has come, or what has come since was made of it
  }
  return arrival.base == 0 || arrival.base == held ? Use::kNewer : Use::kLacksBase;
}

bool PullIntake::TakePart(const Place& place, const Arrival& arrival, Use* use) {
  const auto& [index, part] = place;
  State& state = states_[index];
  const uint32_t part_count = parts_.CountOf(chunks_[index].element_count);
  if (arrival.number != 0) {
    state.parts.resize(part_count);
  }
  *use = UseOf(state, part, arrival);
  if (*use == Use::kLacksBase) {
    state.parts[part].is_base_lost = true;
    return false;
  }
  Version version = arrival.version;
  bool is_rounded = arrival.is_rounded;
  if (part_count > 1) {
    if (arrival.request_id < state.coming_by) {
      *use = Use::kOlder;  // it would mix with what a newer answer has brought
      return false;
    }
    if (arrival.request_id > state.coming_by) {
      state.coming_by = arrival.request_id;
      state.has_come.assign(part_count, false);
      state.parts_left = part_count;
      state.coming_version = version;
      state.is_coming_rounded = false;
    }
    if (state.has_come[part] && arrival.number == 0) {
      *use = Use::kOlder;
      return false;
    }
  }
  if (*use == Use::kNewer && !state.parts.empty()) {
    const bool was_lost = state.parts[part].is_base_lost;
    state.parts[part] = {arrival.number, was_lost && arrival.base != 0};
  }
  if (part_count > 1) {
    if (state.has_come[part]) {
      return false;  // the answer was given twice, and this is of the second one
    }
    state.has_come[part] = true;
    state.coming_version = std::min(state.coming_version, version);
    state.is_coming_rounded = state.is_coming_rounded || is_rounded;
    if (--state.parts_left > 0) {
      return false;
    }
    version = state.coming_version;
    is_rounded = state.is_coming_rounded;
  }
  const bool is_newer = arrival.number == 0 ? state.IsOlderThan(version, is_rounded)
                                            : part_count > 1 || *use == Use::kNewer;
  if (is_newer) {
    state.is_held = true;
    state.is_rounded = is_rounded;
    state.version = version;
  }
  const bool is_first = arrival.request_id != state.completed_by;
  state.completed_by = std::max(state.completed_by, arrival.request_id);
  return is_first;
}

Status PullIntake::CheckEncoding(const proto::PullReply& reply) const {
  const codec::Encoding& encoding = reply.encoding;
  const bool is_whole = !encoding.is_lossy() || encoding.kind == codec::EncodingKind::kBf16;
  if (!is_whole && !proto::HasDifferences(encoding)) {
    return Status::InvalidArgument(fmt::format(
        "shard {} sent values as {}, and they travel as f32 or bf16, and differences as int8 or "
        "int4",
        shard_.value,
        encoding.ToText()));
  }
  return Status::Ok();
}

/// A value has no base, and a difference one of an earlier frame, and bytes of a difference.
Status PullIntake::CheckEntry(
    const proto::PullReply& reply,
    const proto::PullReply::Chunk& entry,
    std::span<const std::byte> bytes) {
  const bool is_difference = proto::HasDifferences(reply.encoding);
  if (is_difference ? entry.base == 0 || entry.base >= reply.number : entry.base != 0) {
    return Status::InvalidArgument(fmt::format(
        "frame {} of shard {} has chunk {} as {}, as a difference to frame {}; values have no "
        "base, and differences that of an earlier frame",
        reply.number,
        shard_.value,
        entry.key.value,
        reply.encoding.ToText(),
        entry.base));
  }
  if (!is_difference) {
    return Status::Ok();
  }
  scratch_.resize(entry.element_count);
  Status status = codec::CheckDifference(reply.encoding, bytes, scratch_);
  return status.ok() ? status
                     : std::move(status).Annotate(
                           fmt::format("chunk {} of shard {}", entry.key.value, shard_.value));
}

Result<PullIntake::Taken> PullIntake::Take(
    uint64_t request_id, const proto::PullReply& reply, uint64_t known) {
  const std::span<const std::byte> bytes = reply.payload.bytes();
  const codec::Encoding& encoding = reply.encoding;
  PS_TRY(CheckEncoding(reply));
  Taken taken;
  if (reply.life < life_) {
    return taken;  // it was on its way when the shard began anew
  }
  if (reply.life > life_) {
    states_.assign(chunks_.size(), State());
    life_ = reply.life;
  }
  size_t offset = 0;
  for (const proto::PullReply::Chunk& chunk : reply.chunks) {
    const std::optional<Place> place = PlaceOf(chunk);
    const size_t size = encoding.SizeOf(chunk.element_count);
    const bool is_new = reply.placement > known;
    if (!place && (is_new || gone_.contains(chunk.key)) && size <= bytes.size() - offset) {
      taken.completed_chunks += is_new && CountUnknown(request_id, chunk.key) ? 1 : 0;
      offset += size;
      continue;
    }
    if (!place) {
      return Status::InvalidArgument(fmt::format(
          "shard {} sent chunk {} with {} elements from {}, which is neither a chunk of "
          "its own nor a part of one",
          shard_.value,
          chunk.key.value,
          chunk.element_count,
          chunk.element_begin));
    }
    if (size > bytes.size() - offset) {
      return Status::InvalidArgument("a pull's answer has fewer bytes than its chunks");
    }
    PS_TRY(CheckEntry(reply, chunk, bytes.subspan(offset, size)));
    Use use = Use::kOlder;
    const Arrival arrival = {
        request_id, chunk.version, encoding.is_lossy(), reply.number, chunk.base};
    taken.completed_chunks += TakePart(*place, arrival, &use) ? 1 : 0;
    taken.lacks_base = taken.lacks_base || use == Use::kLacksBase;
    if (use == Use::kNewer) {
      taken.fresh.push_back(
          {chunk.key,
           chunk.element_begin,
           chunks_[place->index].offset + chunk.element_begin,
           bytes.subspan(offset, size),
           chunk.element_count,
           encoding,
           chunk.base != 0,
           reply.payload.owner});
    }
    offset += size;
  }
  return taken;
}

}  // namespace ps::client
