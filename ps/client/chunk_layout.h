#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/chunks.h"
#include "ps/proto/messages.h"

namespace ps::client {

/// Where each chunk of a model lies in the flat f32 buffer of proto::TensorLayout. Parameters and
/// gradients share the layout. A tensor whose gradient travels as bf16 has it in the first half of
/// its place in a gradient, its values back to back.
class ChunkLayout {
 public:
  struct Chunk {
    ChunkKey key;
    ShardId shard;
    uint32_t element_count = 0;
    int64_t offset = 0;  // in elements from the start of the flat buffer
    proto::GradientDtype dtype = proto::GradientDtype::kF32;  // of its gradient
    size_t gradient_begin = 0;  // of that, in bytes from the start of a flat gradient
  };

  ChunkLayout() = default;

  /// `dtypes`: the type of each tensor's gradient; empty: all are f32. Errors: kInvalidArgument as
  /// proto::CheckPlacement says: the two programs disagree about the model.
  static Result<ChunkLayout> Make(
      const std::vector<int64_t>& tensor_elements,
      const proto::Placement& placement,
      std::span<const proto::GradientDtype> dtypes = {});

  const std::vector<Chunk>& chunks() const { return chunks_; }

  /// Null when the model has no such chunk.
  const Chunk* Find(ChunkKey key) const;
  /// The chunk is on another shard now. Requires: there is one.
  void Move(ChunkKey key, ShardId shard);

  size_t tensor_count() const { return tensors_.tensor_count(); }

  /// Elements of the flat buffer, padding included.
  int64_t element_count() const { return tensors_.element_count(); }

 private:
  proto::TensorLayout tensors_;
  std::vector<Chunk> chunks_;  // by key
};

}  // namespace ps::client
