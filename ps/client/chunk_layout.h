#pragma once

#include <cstdint>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/base/status.h"
#include "ps/proto/messages.h"

namespace ps::client {

/// Where each tensor and chunk of a model lies in one flat f32 buffer: tensors in index order, each
/// starting at a multiple of kBufferAlignment. Parameters and gradients share the layout.
class ChunkLayout {
 public:
  struct Chunk {
    ChunkKey key;
    ShardId shard;
    uint32_t element_count = 0;
    int64_t offset = 0;  // in elements from the start of the flat buffer
  };

  ChunkLayout() = default;

  /// Errors: kInvalidArgument when the placement does not cover every element of every tensor
  /// exactly once, in key order: the two programs disagree about the model.
  static Result<ChunkLayout> Make(
      const std::vector<int64_t>& tensor_elements, const proto::Placement& placement);

  /// What a tensor of `elements` takes in the flat buffer.
  static constexpr int64_t PaddedElements(int64_t elements) {
    constexpr int64_t kAlign = kBufferAlignment / sizeof(float);
    return (elements + kAlign - 1) / kAlign * kAlign;
  }

  const std::vector<Chunk>& chunks() const { return chunks_; }

  size_t tensor_count() const { return tensor_offsets_.size(); }

  /// Elements of the flat buffer, padding included.
  int64_t element_count() const { return element_count_; }

  Buffer MakeBuffer() const { return Buffer(static_cast<size_t>(element_count_) * sizeof(float)); }

 private:
  std::vector<int64_t> tensor_offsets_;
  std::vector<Chunk> chunks_;  // by key
  int64_t element_count_ = 0;
};

}  // namespace ps::client
