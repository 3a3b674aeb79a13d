#pragma once

// Marks functions that the CPU's loops and CUDA kernels both compile: kernels/optimizers and
// kernels/ops. PS_ELEMENTWISE is for a member that does one element, PS_INLINED for what only the
// host calls.

#ifdef __CUDACC__
#define PS_INLINED __forceinline__
#define PS_ELEMENTWISE __host__ __device__ __forceinline__
#else
#define PS_INLINED [[gnu::always_inline]] inline
#define PS_ELEMENTWISE [[gnu::always_inline]]
#endif
