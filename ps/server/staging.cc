#include "ps/server/staging.h"

#include <cstring>

#include "ps/base/buffer.h"
#include "ps/base/check.h"

namespace ps::server {

void Staging::Begin(Id id, uint64_t round, uint32_t samples, size_t part_count) {
  const auto [it, is_new] = contributions_.try_emplace(id);
  if (is_new) {
    it->second.round = round;
    it->second.samples = samples;
    it->second.parts.resize(part_count);
  }
}

void Staging::Add(
    Id id,
    size_t part_index,
    std::span<const float> values,
    const std::shared_ptr<const void>& owner) {
  Contribution& contribution = contributions_.at(id);
  Part& part = contribution.parts[part_index];
  PS_CHECK(part.values.empty()) << "part " << part_index << " is staged already";
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

void Staging::Release(Id id, size_t first, size_t count) {
  const auto it = contributions_.find(id);
  if (it == contributions_.end()) {
    return;
  }
  for (size_t i = first; i < first + count; ++i) {
    Part& part = it->second.parts[i];
    it->second.bytes -= part.values.size_bytes();
    bytes_ -= part.values.size_bytes();
    part = Part();
  }
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
