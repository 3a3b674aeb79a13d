#pragma once

#include <cstddef>

#include "ps/base/buffer.h"

namespace ps::kernels {

/// Scratch memory shared by ops that run one after the other on one thread. Grows in Prepare only.
class Workspace {
 public:
  void Reserve(size_t size_bytes) {
    if (size_bytes > scratch_.size()) {
      scratch_ = Buffer(size_bytes);
    }
  }

  std::byte* data() { return scratch_.data(); }

  size_t size() const { return scratch_.size(); }

 private:
  Buffer scratch_;
};

}  // namespace ps::kernels
