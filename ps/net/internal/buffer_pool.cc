#include "ps/net/internal/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace ps::net {
namespace {

constexpr size_t kGrainBytes = 4096;

/// Rounds up to eight sizes per doubling: at most an eighth is unused.
size_t SizeClass(size_t size_bytes) {
  const size_t grain = std::max(kGrainBytes, std::bit_floor(std::max<size_t>(size_bytes, 1)) / 8);
  return (std::max<size_t>(size_bytes, 1) + grain - 1) / grain * grain;
}

}  // namespace

struct BufferPool::Pooled {
  Pooled(Buffer b, std::shared_ptr<BufferPool> p) : buffer(std::move(b)), pool(std::move(p)) {}

  Pooled(const Pooled&) = delete;
  Pooled& operator=(const Pooled&) = delete;

  ~Pooled() { pool->Return(std::move(buffer)); }

  Buffer buffer;
  std::shared_ptr<BufferPool> pool;
};

std::shared_ptr<Buffer> BufferPool::Take(size_t size_bytes) {
  const size_t size_class = SizeClass(size_bytes);
  Buffer buffer;
  {
    const std::lock_guard lock(mutex_);
    const auto found = free_.find(size_class);
    if (found != free_.end() && !found->second.empty()) {
      buffer = std::move(found->second.back());
      found->second.pop_back();
      free_bytes_ -= size_class;
    }
  }
  if (buffer.size() == 0) {
    buffer = Buffer(size_class);
  }
  auto pooled = std::make_shared<Pooled>(std::move(buffer), shared_from_this());
  return {pooled, &pooled->buffer};
}

void BufferPool::Return(Buffer buffer) {
  const size_t size = buffer.size();
  std::vector<Buffer> evicted;  // freed after the lock
  const std::lock_guard lock(mutex_);
  if (size > free_bytes_max_) {
    return;
  }
  // Buffers of the size in use now are kept rather than others.
  for (auto it = free_.begin(); it != free_.end() && free_bytes_ + size > free_bytes_max_;) {
    if (it->first == size || it->second.empty()) {
      ++it;
      continue;
    }
    evicted.push_back(std::move(it->second.back()));
    it->second.pop_back();
    free_bytes_ -= it->first;
  }
  if (free_bytes_ + size > free_bytes_max_) {
    return;
  }
  free_bytes_ += size;
  free_[size].push_back(std::move(buffer));
}

uint64_t BufferPool::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return free_bytes_;
}

}  // namespace ps::net
