#include "ps/server/staging.h"

#include <cstring>

#include "ps/base/buffer.h"
#include "ps/base/check.h"

namespace ps::server {

void Staging::Begin(Id id, uint64_t round, uint32_t samples, size_t chunk_count) {
  const auto [it, is_new] = contributions_.try_emplace(id);
  if (is_new) {
    it->second.round = round;
    it->second.samples = samples;
    it->second.parts.resize(chunk_count);
  }
}

void Staging::Add(
    Id id,
    size_t chunk_index,
    std::span<const float> values,
    const std::shared_ptr<const void>& owner) {
  Contribution& contribution = contributions_.at(id);
  Part& part = contribution.parts[chunk_index];
  PS_CHECK(part.values.empty()) << "chunk " << chunk_index << " is staged already";
  if (owner != nullptr) {
    part = {values, owner};
  } else {
    auto copy = std::make_shared<Buffer>(values.size_bytes());
    std::memcpy(copy->data(), values.data(), values.size_bytes());
    part.values = copy->floats();
    part.owner = std::move(copy);
  }
  contribution.bytes += values.size_bytes();
  bytes_ += values.size_bytes();
}

void Staging::Complete(Id id) {
  contributions_.at(id).is_complete = true;
}

const Staging::Contribution* Staging::Find(Id id) const {
  const auto it = contributions_.find(id);
  return it == contributions_.end() ? nullptr : &it->second;
}

Staging::Map::iterator Staging::Erase(Map::iterator it) {
  bytes_ -= it->second.bytes;
  return contributions_.erase(it);
}

void Staging::Drop(Id id) {
  if (const auto it = contributions_.find(id); it != contributions_.end()) {
    Erase(it);
  }
}

void Staging::DropIncomplete(Incarnation incarnation) {
  auto it = contributions_.lower_bound({incarnation, 0});
  while (it != contributions_.end() && it->first.first == incarnation) {
    it = it->second.is_complete ? std::next(it) : Erase(it);
  }
}

void Staging::DropThrough(uint64_t round) {
  for (auto it = contributions_.begin(); it != contributions_.end();) {
    it = it->second.round <= round ? Erase(it) : std::next(it);
  }
}

}  // namespace ps::server
