#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ps/base/buffer.h"

namespace ps::net {

/// Keeps returned buffers for the next taker, because fresh large memory costs a page fault per 4
/// KiB. Bounds what lies unused, not what is in use: that is bounded by one frame per connection
/// plus what the cores hold on to. Thread: any, since a payload may be dropped on any thread.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  explicit BufferPool(uint64_t free_bytes_max) : free_bytes_max_(free_bytes_max) {}

  /// A buffer of at least `size_bytes`, contents undefined. It goes back to the pool, or is freed
  /// if the pool is full, when the last copy of the pointer is gone.
  std::shared_ptr<Buffer> Take(size_t size_bytes);

  uint64_t free_bytes() const;

  uint64_t free_bytes_max() const { return free_bytes_max_; }

 private:
  struct Pooled;

  void Return(Buffer buffer);

  const uint64_t free_bytes_max_;

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  uint64_t free_bytes_ = 0;
  std::map<size_t, std::vector<Buffer>> free_;  // by size; newest last, for warm caches
};

}  // namespace ps::net
