#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ps/base/ids.h"

namespace ps::server {

/// bsp: gradients that have come and wait for their round to be committed. Who keeps the bytes
/// under the limit is the caller. Thread: the shard's.
class Staging {
 public:
  using Id = std::pair<Incarnation, Step>;

  struct Part {
    std::span<const float> values;  // empty: not here yet
    std::shared_ptr<const void> owner;
  };

  struct Contribution {
    uint64_t round = 0;
    uint32_t samples = 0;
    bool is_complete = false;
    uint64_t bytes = 0;
    std::vector<Part> parts;  // by chunk index
  };

  /// Begins a contribution of `chunk_count` chunks. Nothing happens when it has begun.
  void Begin(Id id, uint64_t round, uint32_t samples, size_t chunk_count);
  /// Keeps `values`, alive as long as `owner` is; copies them when there is no owner.
  /// Requires: begun, and this chunk is not there yet.
  void Add(
      Id id,
      size_t chunk_index,
      std::span<const float> values,
      const std::shared_ptr<const void>& owner);
  void Complete(Id id);

  /// Null when there is none.
  const Contribution* Find(Id id) const;

  void Drop(Id id);
  /// What a fenced incarnation left unfinished. What is complete may still be committed.
  void DropIncomplete(Incarnation incarnation);
  /// Everything of rounds up to `round`.
  void DropThrough(uint64_t round);

  uint64_t bytes() const { return bytes_; }

 private:
  using Map = std::map<Id, Contribution>;
  Map::iterator Erase(Map::iterator it);

  Map contributions_;
  uint64_t bytes_ = 0;
};

}  // namespace ps::server
