#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

#include "tests/cuda_emulation/block.h"

namespace ps::cuda_emulation {

// The imaginary device does work as late as it may: what a stream was given runs only when someone
// waits for it, or when another stream that was told to wait for it is waited for. A wait that is
// missing shows as old values. New device memory is all NaN, and an access near, but not inside, an
// allocation is the address sanitizer's to find.

/// Puts a kernel into a stream. Errors: cudaErrorInvalidConfiguration for an empty grid or block.
cudaError_t Launch(cudaStream_t stream, dim3 grid, dim3 block, std::function<void()> body);

/// What the machine has: the version of CUDA that its driver knows (0: no driver), and how many
/// devices, all of them the same one. As it begins: CUDART_VERSION and 1.
void SetMachine(int driver_version, int devices);

/// Of all its devices; 7.5 as it begins.
void SetComputeCapability(int major, int minor);

/// Bytes that allocations of device memory may come to; 0: 2 GiB, as it begins.
void SetDeviceMemory(size_t size_bytes);

/// The device is lost with the piece of work after so many more.
void LoseDeviceAfter(int pieces);

void SetThreadOrder(ThreadOrder order);

/// What the first fault was since the last call; empty when there was none. Until it is taken,
/// every call of the runtime fails, as on a device.
std::string TakeFailure();

/// Allocations of device and of pinned memory that were not freed.
int LiveAllocations();

}  // namespace ps::cuda_emulation
