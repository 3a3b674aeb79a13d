#include "ps/server/chunks/reindexing.h"

namespace ps::server {

Reindexing::Reindexing(const ChunkStore& before) {
  for (size_t i = 0; i < before.size(); ++i) {
    before_.push_back({before.chunks()[i].key, i, before.chunks()[i].first_part});
  }
}

void Reindexing::SetAfter(const ChunkStore& after) {
  earlier_.assign(after.size(), std::nullopt);
  later_.assign(before_.size(), std::nullopt);
  for (const Earlier& chunk : before_) {
    if (const std::optional<size_t> index = after.IndexOf(chunk.key); index) {
      earlier_[*index] = chunk;
      later_[chunk.index] = index;
    }
  }
}

std::vector<std::optional<size_t>> Reindexing::EarlierParts(const ChunkStore& after) const {
  std::vector<std::optional<size_t>> parts(after.part_count());
  for (size_t i = 0; i < after.size(); ++i) {
    const Chunk& chunk = after.chunks()[i];
    for (uint32_t part = 0; earlier_[i] && part < chunk.part_count; ++part) {
      parts[chunk.first_part + part] = earlier_[i]->first_part + part;
    }
  }
  return parts;
}

}  // namespace ps::server
