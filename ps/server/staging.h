#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ps/base/ids.h"

namespace ps::server {

/// A part of a chunk that has come and waits.
struct StagedPart {
  std::span<const float> values;  // empty: not here yet
  std::shared_ptr<const void> owner;

  /// Keeps `values`, alive as long as `owner` is; copies them when there is no owner.
  static StagedPart Keep(std::span<const float> values, std::shared_ptr<const void> owner);
};

/// bsp: gradients that wait for their round to be committed. The caller keeps bytes() under its
/// limit. Thread: the shard's.
class Staging {
 public:
  using Id = std::pair<Incarnation, Step>;

  struct Contribution {
    uint64_t round = 0;
    uint32_t samples = 0;
    bool is_complete = false;
    uint64_t bytes = 0;
    std::vector<StagedPart> parts;  // of all chunks, in order

    /// None of these parts is missing.
    bool Has(size_t first, size_t count) const;

    bool is_whole() const { return Has(0, parts.size()); }
  };

  /// Begins a contribution of `part_count` parts. Nothing happens when it has begun.
  void Begin(Id id, uint64_t round, uint32_t samples, size_t part_count);
  /// Requires: begun, and this part is not there yet.
  void Add(Id id, size_t part_index, StagedPart part);
  void Complete(Id id);
  /// A chunk has come that the contribution lacks, so it is not complete. Nothing happens when
  /// there is no such contribution.
  void Reopen(Id id);
  /// Chunks have come or gone. `earlier`: for each part that there is now, the index that it had;
  /// none when it is new.
  void Rearrange(const std::vector<std::optional<size_t>>& earlier);

  /// Null when there is none.
  const Contribution* Find(Id id) const;

  /// Hands a contribution over. Requires: there is one.
  Contribution Take(Id id);
  void Drop(Id id);
  /// What a fenced incarnation left unfinished. What is complete may still be committed.
  void DropIncomplete(Incarnation incarnation);
  void DropAll(Incarnation incarnation);
  /// Everything of rounds up to `round`.
  void DropThrough(uint64_t round);

  using Map = std::map<Id, Contribution>;

  const Map& contributions() const { return contributions_; }

  uint64_t bytes() const { return bytes_; }

 private:
  Map::iterator Erase(Map::iterator it);

  Map contributions_;
  uint64_t bytes_ = 0;
};

}  // namespace ps::server
