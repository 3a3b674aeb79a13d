#pragma once

#include <cstddef>
#include <source_location>
#include <vector>

// What a block does in shared memory beside plain accesses, and what that needs of the block.
// Private to this folder; block.h is what kernels call.

namespace ps::cuda_emulation {

constexpr int kNanByte = 0xff;

/// A copy that was begun.
struct AsyncCopy {
  std::byte* to;
  const std::byte* from;  // nullptr: zeros
  unsigned group;
};

struct ThreadCopies {
  std::vector<AsyncCopy> pending;  // by group
  unsigned group = 0;              // of those that are begun now
};

/// The running thread's.
ThreadCopies& CopiesOfThread();

/// Fails the block on behalf of the running thread if it is not.
void RequireAligned(
    const void* address, size_t alignment, const char* what, const std::source_location& where);

}  // namespace ps::cuda_emulation
