#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ps/base/status.h"
#include "ps/codec/encoding.h"
#include "ps/proto/chunks.h"
#include "ps/proto/messages.h"

namespace ps::client {

/// Where each chunk of a model lies in the flat f32 buffer of proto::TensorLayout. Parameters and
/// gradients share the layout. A gradient that is to travel in another encoding than f32 lies in
/// the same memory when it is final: each part of a chunk encoded where its f32 values were. As
/// bf16, all of a tensor is back to back in the first half of its place, as devices leave it.
class ChunkLayout {
 public:
  struct Chunk {
    ChunkKey key;
    ShardId shard;
    uint32_t element_count = 0;
    int64_t offset = 0;          // in elements from the start of the flat buffer
    codec::Encoding encoding{};  // of its gradient
    size_t gradient_begin = 0;   // of that, in bytes from the start of a flat gradient
    size_t gradient_stride = 4;  // bytes between the places of two elements, of which parts begin

    /// Where the part that begins with this element is in a flat gradient, encoded, in bytes.
    size_t GradientAt(uint32_t element_begin) const {
      return gradient_begin + element_begin * gradient_stride;
    }
  };

  ChunkLayout() = default;

  /// `encodings`: what each tensor's gradient travels as; empty: all as f32. Errors:
  /// kInvalidArgument as proto::CheckPlacement says: the two programs disagree about the model.
  static Result<ChunkLayout> Make(
      const std::vector<int64_t>& tensor_elements,
      const proto::Placement& placement,
      std::span<const codec::Encoding> encodings = {});

  const std::vector<Chunk>& chunks() const { return chunks_; }

  /// Null when the model has no such chunk.
  const Chunk* Find(ChunkKey key) const;
  /// Gradients travel in these encodings from now on, as Make takes them.
  void SetEncodings(std::span<const codec::Encoding> encodings);
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
