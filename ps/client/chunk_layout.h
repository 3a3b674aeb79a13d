#pragma once

#include <cstdint>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/base/status.h"
#include "ps/proto/chunks.h"
#include "ps/proto/messages.h"

namespace ps::client {

/// Where each chunk of a model lies in the flat f32 buffer of proto::TensorLayout. Parameters and
/// gradients share the layout.
class ChunkLayout {
 public:
  struct Chunk {
    ChunkKey key;
    ShardId shard;
    uint32_t element_count = 0;
    int64_t offset = 0;  // in elements from the start of the flat buffer
  };

  ChunkLayout() = default;

  /// Errors: kInvalidArgument as of proto::CheckPlacement: the two programs disagree about the
  /// model.
  static Result<ChunkLayout> Make(
      const std::vector<int64_t>& tensor_elements, const proto::Placement& placement);

  const std::vector<Chunk>& chunks() const { return chunks_; }

  /// Null when the model has no such chunk.
  const Chunk* Find(ChunkKey key) const;
  /// The chunk is on another shard now. Requires: there is one.
  void Move(ChunkKey key, ShardId shard);

  size_t tensor_count() const { return tensors_.tensor_count(); }

  /// Elements of the flat buffer, padding included.
  int64_t element_count() const { return tensors_.element_count(); }

  Buffer MakeBuffer() const { return Buffer(static_cast<size_t>(element_count()) * sizeof(float)); }

 private:
  proto::TensorLayout tensors_;
  std::vector<Chunk> chunks_;  // by key
};

}  // namespace ps::client
