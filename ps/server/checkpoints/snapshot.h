#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/shard_store.h"
#include "ps/server/chunks/chunk_store.h"

namespace ps::server {

/// Where the newest written version of each chunk of a shard is, by its index.
using ChunkRefs = std::vector<std::optional<checkpoint::ChunkRef>>;

/// The parameters of a shard as they were at one moment, while training goes on. A chunk is copied
/// when its turn to be written comes, or just before it changes for the first time since that
/// moment. Chunks whose newest version is written already are left out.
class Snapshot {
 public:
  struct Image {
    size_t chunk = 0;
    std::shared_ptr<const checkpoint::ChunkData> data;
  };

  /// Begins now. Copies are handed out until `out_bytes_max` of them are out.
  Snapshot(const ChunkStore& store, const ChunkRefs& refs, uint64_t out_bytes_max);

  /// The chunk is about to change.
  void BeforeUpdate(const ChunkStore& store, size_t chunk);
  /// The next chunk to be written; nothing when enough are out, or none is left.
  std::optional<Image> Take(const ChunkStore& store);
  /// A chunk that was taken is written, or given up.
  void Return(const Image& image);

  /// Every chunk was taken and came back.
  bool is_done() const { return out_count_ == 0 && copied_.empty() && next_ == states_.size(); }

  uint64_t copied_bytes_max() const { return copied_bytes_max_; }

 private:
  enum class State : uint8_t { kShared, kDue, kCopied };

  Image Copy(const ChunkStore& store, size_t chunk);
  void SkipToDue();

  const uint64_t out_bytes_max_;
  std::vector<State> states_;  // by chunk
  size_t next_ = 0;            // the first that is due
  std::deque<Image> copied_;   // since they were about to change
  uint64_t copied_bytes_ = 0;  // in memory now: waiting or out
  uint64_t copied_bytes_max_ = 0;
  uint64_t out_bytes_ = 0;
  size_t out_count_ = 0;
};

}  // namespace ps::server
