#include "ps/server/chunk_move.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace ps::server {

bool Taking::IsOffered(uint32_t buffer, const Chunk& chunk) const {
  if (buffer < kBuffersMax) {
    return buffer < BuffersOf(chunk).size();
  }
  const size_t step = buffer - kBuffersMax;
  return step < gradients.size() && gradients[step].contains(chunk.key);
}

void Taking::Take(
    proto::ChunkPart& part, const proto::ChunkRef& elements, uint32_t number, Chunk* chunk) {
  const std::span<const std::byte> bytes = part.payload.bytes();
  if (part.buffer >= kBuffersMax) {
    const auto* const values = reinterpret_cast<const float*>(bytes.data());
    gradients[part.buffer - kBuffersMax].at(chunk->key)[number] =
        StagedPart::Keep({values, elements.element_count}, part.payload.owner);
    return;
  }
  Buffer& to = *BuffersOf(*chunk)[part.buffer];
  if (chunk->part_count == 1) {
    // Copied, it would fill fresh memory, and the page faults of that cost more than copying.
    if (Buffer whole = part.payload.TakeBuffer(); whole.size() > 0) {
      to = std::move(whole);
      return;
    }
  }
  std::memcpy(to.data() + elements.element_begin * sizeof(float), bytes.data(), bytes.size());
}

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

void Recount(const ChunkStore& store, Intake* intake) {
  intake->begun_count = 0;
  intake->complete_count = 0;
  intake->rejected_count = 0;
  for (size_t i = 0; i < store.size(); ++i) {
    intake->begun_count += intake->parts_left[i] < store.chunks()[i].part_count ? 1 : 0;
    intake->complete_count += intake->parts_left[i] == 0 ? 1 : 0;
    intake->rejected_count += intake->is_rejected[i] ? 1 : 0;
  }
}

void Reindex(const Reindexing& chunks, const ChunkStore& store, Intake* intake) {
  Intake before = *intake;
  intake->has_come.assign(store.part_count(), false);
  intake->parts_left.clear();
  intake->is_rejected.assign(store.size(), false);
  intake->unfinished.clear();
  for (size_t i = 0; i < store.size(); ++i) {
    const Chunk& chunk = store.chunks()[i];
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
                            ? static_cast<uint32_t>(store.size())
                            : std::min(before.chunk_count, static_cast<uint32_t>(store.size()));
  Recount(store, intake);
}

bool Reindex(const Reindexing& chunks, PullAnswer* answer) {
  std::vector<uint32_t> left;
  size_t next = answer->next;
  for (size_t i = 0; i < answer->chunks.size(); ++i) {
    if (const std::optional<size_t> later = chunks.later()[answer->chunks[i]]; later) {
      left.push_back(static_cast<uint32_t>(*later));
    } else if (i >= answer->next) {
      return false;
    } else {
      --next;
    }
  }
  answer->chunks = std::move(left);
  answer->next = next;
  return true;
}

}  // namespace ps::server
