#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ps/base/ids.h"

namespace ps::server {

/// Gradients that have come and wait: in bsp for their round to be committed, in the other modes
/// for the rest of their chunk. Who keeps the bytes under the limit is the caller. Thread: the
/// shard's.
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
    std::vector<Part> parts;  // of all chunks, in order
  };

  /// Begins a contribution of `part_count` parts. Nothing happens when it has begun.
  void Begin(Id id, uint64_t round, uint32_t samples, size_t part_count);
  /// Keeps `values`, alive as long as `owner` is; copies them when there is no owner.
  /// Requires: begun, and this part is not there yet.
  void Add(
      Id id,
      size_t part_index,
      std::span<const float> values,
      const std::shared_ptr<const void>& owner);
  /// Forgets parts [first, first + count), as far as they are there.
  void Release(Id id, size_t first, size_t count);
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
