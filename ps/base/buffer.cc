#include "ps/base/buffer.h"

#include <sys/mman.h>

namespace ps {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kLargeBytes = 2 * kHugePageBytes;

}  // namespace

std::align_val_t Buffer::AlignmentOf(size_t size_bytes) {
  return std::align_val_t(size_bytes < kLargeBytes ? kBufferAlignment : kHugePageBytes);
}

std::byte* Buffer::Allocate(size_t size_bytes) {
  if (size_bytes == 0) {
    return nullptr;
  }
  void* const memory = ::operator new[](size_bytes, AlignmentOf(size_bytes));
  if (size_bytes >= kLargeBytes) {
    // Whole pages, so that none is larger than what is asked for. A machine may refuse.
    static_cast<void>(madvise(memory, size_bytes / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE));
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace ps
