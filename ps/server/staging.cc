#include "ps/server/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ps/base/buffer.h"
#include "ps/base/check.h"

namespace ps::server {

StagedPart StagedPart::Keep(std::span<const float> values, std::shared_ptr<const void> owner) {
  if (owner != nullptr) {
    return {values, std::move(owner)};
  }
  auto copy = std::make_shared<Buffer>(values.size_bytes());
  std::memcpy(copy->data(), values.data(), values.size_bytes());
  const std::span<const float> kept = copy->floats();
  return {kept, std::move(copy)};
}

bool Staging::Contribution::Has(size_t first, size_t count) const {
  return std::ranges::none_of(
      std::span(parts).subspan(first, count), &std::span<const float>::empty, &StagedPart::values);
}

void Staging::Begin(Id id, uint64_t round, uint32_t samples, size_t part_count) {
  const auto [it, is_new] = contributions_.try_emplace(id);
  if (is_new) {
    it->second.round = round;
    it->second.samples = samples;
    it->second.parts.resize(part_count);
  }
}

void Staging::Add(Id id, size_t part_index, StagedPart part) {
  Contribution& contribution = contributions_.at(id);
  StagedPart& place = contribution.parts[part_index];
  PS_CHECK(place.values.empty()) << "part " << part_index << " is staged already";
  contribution.bytes += part.values.size_bytes();
  bytes_ += part.values.size_bytes();
  place = std::move(part);
}

void Staging::Complete(Id id) {
  contributions_.at(id).is_complete = true;
}

void Staging::Reopen(Id id) {
  if (const auto it = contributions_.find(id); it != contributions_.end()) {
    it->second.is_complete = false;
  }
}

void Staging::Rearrange(const std::vector<std::optional<size_t>>& earlier) {
  bytes_ = 0;
  for (auto& [id, contribution] : contributions_) {
    std::vector<StagedPart> before = std::exchange(contribution.parts, {});
    contribution.bytes = 0;
    for (const std::optional<size_t> index : earlier) {
      contribution.parts.push_back(index ? std::move(before[*index]) : StagedPart());
      contribution.bytes += contribution.parts.back().values.size_bytes();
    }
    bytes_ += contribution.bytes;
  }
}

const Staging::Contribution* Staging::Find(Id id) const {
  const auto it = contributions_.find(id);
  return it == contributions_.end() ? nullptr : &it->second;
}

Staging::Map::iterator Staging::Erase(Map::iterator it) {
  bytes_ -= it->second.bytes;
  return contributions_.erase(it);
}

Staging::Contribution Staging::Take(Id id) {
  const auto it = contributions_.find(id);
  PS_CHECK(it != contributions_.end()) << "step " << id.second << " is not staged";
  Contribution contribution = std::move(it->second);
  bytes_ -= contribution.bytes;
  contributions_.erase(it);
  return contribution;
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

void Staging::DropAll(Incarnation incarnation) {
  auto it = contributions_.lower_bound({incarnation, 0});
  while (it != contributions_.end() && it->first.first == incarnation) {
    it = Erase(it);
  }
}

void Staging::DropThrough(uint64_t round) {
  for (auto it = contributions_.begin(); it != contributions_.end();) {
    it = it->second.round <= round ? Erase(it) : std::next(it);
  }
}

}  // namespace ps::server
