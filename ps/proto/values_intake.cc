#include "ps/proto/values_intake.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace ps::proto {

ValuesIntake::ValuesIntake(std::vector<ChunkAssignment> chunks, uint64_t frame_bytes)
    : parts_(frame_bytes), chunks_(std::move(chunks)) {
  for (const ChunkAssignment& chunk : chunks_) {
    const uint32_t count = parts_.CountOf(chunk.element_count);
    states_.push_back({parts_left_, count});
    parts_left_ += count;
  }
  has_come_.assign(parts_left_, false);
}

Result<bool> ValuesIntake::Take(const PullReply& reply, const TakePart& take) {
  if (reply.encoding.is_lossy()) {
    return Status::InvalidArgument(fmt::format(
        "values come as {}; between coordinator and shard they travel as f32",
        reply.encoding.ToText()));
  }
  const std::span<const std::byte> bytes = reply.payload.bytes();
  const std::span<const float> values(
      reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
  size_t at = 0;
  bool has_new = false;
  for (const PullReply::Chunk& entry : reply.chunks) {
    const auto it = std::ranges::lower_bound(chunks_, entry.key, {}, &ChunkAssignment::key);
    std::optional<uint32_t> part;
    if (it != chunks_.end() && it->key == entry.key) {
      part = parts_.IndexOf(it->element_count, {entry.element_begin, entry.element_count});
    }
    if (!part || entry.element_count > values.size() - at) {
      return Status::InvalidArgument(fmt::format(
          "{} elements from {} of chunk {} are no part of the chunks that were asked for",
          entry.element_count,
          entry.element_begin,
          entry.key.value));
    }
    const auto index = static_cast<size_t>(it - chunks_.begin());
    State& state = states_[index];
    const size_t place = state.first_part + *part;
    if (!has_come_[place]) {
      PS_TRY(take(index, entry.element_begin, values.subspan(at, entry.element_count)));
      has_come_[place] = true;
      has_new = true;
      --state.parts_left;
      --parts_left_;
    }
    at += entry.element_count;
  }
  return has_new;
}

std::vector<ChunkVersion> ValuesIntake::Held() const {
  std::vector<ChunkVersion> held;
  for (size_t i = 0; i < chunks_.size(); ++i) {
    if (states_[i].parts_left == 0) {
      held.push_back({chunks_[i].key, 0});
    }
  }
  return held;
}

}  // namespace ps::proto
