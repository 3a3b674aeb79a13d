#pragma once

#include <cstddef>

#include "ps/base/buffer.h"

namespace ps::kernels {

/// Memory shared by ops that run one after the other on one thread: nothing in it outlives a call.
/// Grows in Prepare only.
class Workspace {
 public:
  /// Scratch of the primitive that runs.
  void Reserve(size_t size_bytes) { Grow(size_bytes, &scratch_); }

  std::byte* data() { return scratch_.data(); }

  /// Beside it, tensors in another layout or type, for the op that runs.
  void ReserveCopies(size_t size_bytes) { Grow(size_bytes, &copies_); }

  std::byte* copies() { return copies_.data(); }

 private:
  static void Grow(size_t size_bytes, Buffer* buffer) {
    if (size_bytes > buffer->size()) {
      *buffer = Buffer(size_bytes);
    }
  }

  Buffer scratch_;
  Buffer copies_;
};

}  // namespace ps::kernels
