#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace ps::kernels {

/// The block's dynamic shared memory, of which Launch has said how much; aligned to its banks.
__device__ inline std::byte* BlockMemory() {
#ifdef __CUDACC__
  extern __shared__ __align__(128) std::byte block_memory[];
  return block_memory;
#else
  return ps::cuda_emulation::DynamicShared();
#endif
}

// Copies of 16 bytes from global to shared memory, both aligned so, that go on beside the thread:
// it has what it copied once it has waited, and the block what all have once all have, and met.
// Requires: a device of compute capability 8.0.

/// Begins a copy, or one of zeros if not `is_there`: `global` is not read then.
__device__ inline void CopyAsync(void* shared, const void* global, bool is_there) {
#ifndef __CUDACC__
  ps::cuda_emulation::CopyAsync16(shared, global, is_there);
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(__cvta_generic_to_global(global)),
               "r"(is_there ? 16 : 0)
               : "memory");
#else
  __trap();
#endif
}

/// What the thread has begun since its last call becomes a group.
__device__ inline void CommitCopies() {
#ifndef __CUDACC__
  ps::cuda_emulation::CommitCopies();
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits for the thread's groups but the latest `left`.
template <int left>
__device__ void WaitForCopies() {
#ifndef __CUDACC__
  ps::cuda_emulation::WaitForCopies(left);
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
#endif
}

/// Rows of `units` units of 16 bytes in shared memory. The units of a row are exchanged, so that
/// one unit of rows that follow each other lies in different banks: eight of them come at once.
/// Requires: `units` is a power of two; the memory is aligned to 128 bytes.
template <typename Unit, int units>
struct SwizzledTile {
  static_assert(sizeof(Unit) == 16 && (units & (units - 1)) == 0);
  static constexpr int kUnits = units;

  __device__ Unit* At(int row, int unit) const {
    constexpr int kRowsApart = units >= 8 ? 1 : 8 / units;  // that share the banks
    const int shift = row / kRowsApart & ((units >= 8 ? 8 : units) - 1);
    return memory + row * units + (unit ^ shift);
  }

  Unit* memory;
};

}  // namespace ps::kernels
