#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
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

/// Runs a grid, block by block in the order of blockIdx, each thread calling body(). Each block has
/// `shared_bytes` of dynamic shared memory, all NaN at its beginning.
/// Returns what the grid did wrong, empty when nothing: threads that wait for others which have
/// ended or wait elsewhere, a warp operation that names absent lanes, or an address that is not
/// aligned. What was running is then abandoned. Accesses out of bounds are the sanitizers' to find.
/// Thread: one at a time.
std::string RunGrid(
    dim3 grid,
    dim3 block,
    ThreadOrder order,
    const std::function<void()>& body,
    size_t shared_bytes = 0);

/// How often lanes that load squares together have met in a bank of shared memory since the last
/// call: so many times more the loads have taken than they had to.
uint64_t TakeBankConflicts();

// What follows is called by the threads of a block.

/// __syncthreads. Stricter than a device: a thread that has ended is missed.
void WaitForBlock(const std::source_location& where);

/// What a lane shows the others.
using LaneWords = std::array<uint64_t, 3>;
using LaneValues = std::array<LaneWords, 32>;

/// Gives `words` to the lanes of `mask`, and returns once all of them have called this at the same
/// place. The values of other lanes are of no meaning.
const LaneValues& MeetWarp(
    unsigned mask, const LaneWords& words, const std::source_location& where);

/// The first word of one lane. A lane that is not in the mask is a fault of the kernel.
uint64_t LaneValue(
    const LaneValues& values, unsigned mask, unsigned lane, const std::source_location& where);

/// The calling thread's number in its warp.
unsigned Lane();

/// The block's dynamic shared memory, whose margins nobody may touch. Aligned to 256 bytes.
std::byte* DynamicShared();

/// ldmatrix.x4: four squares of 8 x 8 values of 16 bits. Lane l gives `row`, the address of row
/// l % 8 of square l / 8, and gets of each square the values 2 (l % 4) and the next of row l / 4,
/// or those two rows' value l / 4 if it is transposed. What is read is what the row's lane sees
/// when it comes here.
void LoadMatrices(
    const void* row,
    bool is_transposed,
    uint32_t (&squares)[4],
    const std::source_location& where = std::source_location::current());

// Copies of 16 bytes from global to shared memory that go on beside the thread (cp.async). They
// are done as late as they may, when their thread waits for them; until then their destination is
// all NaN. Those that nobody waits for are never done.

/// Begins a copy, or one of zeros if not `is_there`: `global` is not read then. Both addresses are
/// multiples of 16.
void CopyAsync16(
    void* shared,
    const void* global,
    bool is_there,
    const std::source_location& where = std::source_location::current());

/// The thread's copies since its last call become its next group.
void CommitCopies();

/// Does the thread's groups but for the latest `left`.
void WaitForCopies(unsigned left);

}  // namespace ps::cuda_emulation
