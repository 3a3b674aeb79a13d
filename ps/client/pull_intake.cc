#include "ps/client/pull_intake.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

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

std::vector<proto::ChunkVersion> PullIntake::Held(bool exact) const {
  std::vector<proto::ChunkVersion> held;
  for (size_t i = 0; i < chunks_.size(); ++i) {
    if (states_[i].is_held && !(exact && states_[i].is_rounded)) {
      held.push_back({chunks_[i].key, states_[i].version});
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

bool PullIntake::TakePart(
    uint64_t request_id,
    size_t index,
    uint32_t part,
    Version version,
    bool is_rounded,
    bool* is_used) {
  State& state = states_[index];
  *is_used = false;
  const uint32_t part_count = parts_.CountOf(chunks_[index].element_count);
  if (part_count > 1) {
    if (request_id < state.coming_by) {
      return false;  // it would mix with what a newer answer has brought
    }
    if (request_id > state.coming_by) {
      state.coming_by = request_id;
      state.has_come.assign(part_count, false);
      state.parts_left = part_count;
      state.coming_version = version;
      state.is_coming_rounded = false;
    }
    if (state.has_come[part]) {
      return false;
    }
    state.has_come[part] = true;
    state.coming_version = std::min(state.coming_version, version);
    state.is_coming_rounded = state.is_coming_rounded || is_rounded;
    *is_used = state.IsOlderThan(version, is_rounded);
    if (--state.parts_left > 0) {
      return false;
    }
    version = state.coming_version;
    is_rounded = state.is_coming_rounded;
  } else {
    *is_used = state.IsOlderThan(version, is_rounded);
  }
  if (state.IsOlderThan(version, is_rounded)) {
    state.is_held = true;
    state.is_rounded = is_rounded;
    state.version = version;
  }
  const bool is_first = request_id != state.completed_by;
  state.completed_by = std::max(state.completed_by, request_id);
  return is_first;
}

Result<PullIntake::Taken> PullIntake::Take(
    uint64_t request_id, const proto::PullReply& reply, uint64_t known) {
  const std::span<const std::byte> bytes = reply.payload.bytes();
  const codec::Encoding& encoding = reply.encoding;
  if (encoding.is_lossy() && encoding.kind != codec::EncodingKind::kBf16) {
    return Status::InvalidArgument(fmt::format(
        "shard {} sent values as {}, and they travel as f32 or bf16",
        shard_.value,
        encoding.ToText()));
  }
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
    bool is_used = false;
    taken.completed_chunks +=
        TakePart(
            request_id, place->index, place->part, chunk.version, encoding.is_lossy(), &is_used)
            ? 1
            : 0;
    if (is_used) {
      taken.fresh.push_back(
          {chunk.key,
           chunk.element_begin,
           chunks_[place->index].offset + chunk.element_begin,
           bytes.subspan(offset, size),
           chunk.element_count,
           encoding});
    }
    offset += size;
  }
  return taken;
}

}  // namespace ps::client
