#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ps/base/ids.h"
#include "ps/proto/messages.h"

namespace ps::sim {

/// What workers must hold where pulls are differences: made of the frames that shards send, without
/// a look at who encodes or adds. A life of a shard is known by its address.
class HeldCopies {
 public:
  using LifeId = const void*;

  /// The value of a chunk in a version, as long as anybody knows it; else none.
  using ValueOf = std::function<std::span<const float>(ChunkKey key, Version version)>;

  /// A shard sends this frame to a worker. Returns what is wrong with it; empty: nothing.
  std::string Take(
      LifeId life, Incarnation to, const proto::PullReply& reply, const ValueOf& value_of);

  /// The chunk goes on in another life with the versions that it has.
  void Move(LifeId from, LifeId to, ChunkKey key);

  /// Whether these values of a part, that begins with element `begin` of the chunk, are what the
  /// worker was sent of the life in one of the versions [oldest, newest].
  bool Has(
      LifeId life,
      Incarnation incarnation,
      ChunkKey key,
      uint32_t begin,
      std::span<const float> values,
      Version oldest,
      Version newest) const;

 private:
  using Place = std::tuple<LifeId, Incarnation, ChunkKey, uint32_t>;

  struct Copy {
    uint64_t number = 0;
    Version version = 0;
    std::vector<float> values;
  };

  std::string TakePart(
      const Place& place,
      const proto::PullReply& reply,
      const proto::PullReply::Chunk& chunk,
      std::span<const std::byte> bytes,
      std::span<const float> value);

  std::map<Place, std::vector<Copy>> copies_;                       // the newest last
  std::map<std::pair<LifeId, ChunkKey>, std::set<LifeId>> before_;  // where the chunk was
};

}  // namespace ps::sim
