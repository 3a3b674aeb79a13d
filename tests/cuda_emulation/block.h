#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>

namespace ps::cuda_emulation {

/// Which warp of a block, and which thread of a warp, goes first from one barrier to the next: it
/// goes as far as it can before the others begin. A kernel that lacks a barrier shows in one order
/// or the other.
enum class ThreadOrder : uint8_t { kAscending, kDescending };

constexpr unsigned kThreadsPerBlockMax = 1024;

/// Runs a grid, block by block in the order of blockIdx, each thread calling body().
/// Returns what the grid did wrong, empty when nothing: threads that wait for others which have
/// ended or wait elsewhere, or a warp operation that names absent lanes. What was running is then
/// abandoned. Accesses out of bounds are the sanitizers' to find.
/// Thread: one at a time.
std::string RunGrid(dim3 grid, dim3 block, ThreadOrder order, const std::function<void()>& body);

// What follows is called by the threads of a block.

/// __syncthreads. Stricter than a device: a thread that has ended is missed.
void WaitForBlock(const std::source_location& where);

using LaneValues = std::array<uint64_t, 32>;

/// Gives `value` to the lanes of `mask`, and returns once all of them have called this at the same
/// place. The values of other lanes are of no meaning.
const LaneValues& MeetWarp(unsigned mask, uint64_t value, const std::source_location& where);

/// The value of one lane. A lane that is not in the mask is a fault of the kernel.
uint64_t LaneValue(
    const LaneValues& values, unsigned mask, unsigned lane, const std::source_location& where);

/// The calling thread's number in its warp.
unsigned Lane();

}  // namespace ps::cuda_emulation
