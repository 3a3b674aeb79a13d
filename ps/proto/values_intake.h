#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/chunks.h"
#include "ps/proto/messages.h"

namespace ps::proto {

/// Chunks whose values come by PullReply between coordinator and shard: which parts are here. Each
/// part is taken once, whatever is repeated or comes in another order.
class ValuesIntake {
 public:
  /// Takes elements of chunk number `index` from `element_begin` of that chunk on.
  using TakePart =
      std::function<Status(size_t index, uint32_t element_begin, std::span<const float> values)>;

  ValuesIntake() = default;
  /// `chunks` are by key. They travel in frames of `frame_bytes`.
  ValuesIntake(std::vector<ChunkAssignment> chunks, uint64_t frame_bytes);

  /// Hands the parts that are new to `take`. Returns whether there was one. Errors:
  /// kInvalidArgument (the reply has what is no part of these chunks), and those of `take`.
  Result<bool> Take(const PullReply& reply, const TakePart& take);

  bool is_complete() const { return parts_left_ == 0; }

  /// The chunks that are here in full, for PullRequest::held.
  std::vector<ChunkVersion> Held() const;

  /// By key.
  const std::vector<ChunkAssignment>& chunks() const { return chunks_; }

 private:
  struct State {
    size_t first_part = 0;  // of the parts of all chunks
    uint32_t parts_left = 0;
  };

  ChunkParts parts_;
  std::vector<ChunkAssignment> chunks_;
  std::vector<State> states_;  // by chunk
  std::vector<bool> has_come_;
  size_t parts_left_ = 0;
};

}  // namespace ps::proto
