#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ps/base/ids.h"
#include "ps/server/chunks/chunk_store.h"

namespace ps::server {

/// Where the chunks that a shard keeps were before others came or went.
class Reindexing {
 public:
  /// `before`: the chunks as they are still.
  explicit Reindexing(const ChunkStore& before);

  /// The chunks as they are now.
  void SetAfter(const ChunkStore& after);

  /// A chunk's earlier index, first part and number of parts.
  struct Earlier {
    ChunkKey key;
    size_t index = 0;
    size_t first_part = 0;
  };

  /// By the present index; nothing for one that has come.
  const std::vector<std::optional<Earlier>>& earlier() const { return earlier_; }

  /// By the earlier index; nothing for one that has gone.
  const std::vector<std::optional<size_t>>& later() const { return later_; }

  /// For each part that there is now, in order: its earlier index, or none when it is new.
  std::vector<std::optional<size_t>> EarlierParts(const ChunkStore& after) const;

 private:
  std::vector<Earlier> before_;
  std::vector<std::optional<Earlier>> earlier_;
  std::vector<std::optional<size_t>> later_;
};

}  // namespace ps::server
