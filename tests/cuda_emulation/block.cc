#include "tests/cuda_emulation/block.h"

#include <fmt/core.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/base/check.h"
#include "tests/cuda_emulation/fiber.h"
#include "tests/cuda_emulation/machine.h"
#include "tests/cuda_emulation/shared_memory.h"

// CUDA's names for where a thread is.
dim3 threadIdx;
dim3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace ps::cuda_emulation {
namespace {

constexpr unsigned kLanes = 32;

enum class State : uint8_t { kReady, kAtBarrier, kInWarp, kDone };

struct Thread {
  State state = State::kReady;
  std::source_location where;  // kAtBarrier, kInWarp
  unsigned mask = 0;           // kInWarp
  LaneWords words{};           // kInWarp: what it gives
  ThreadCopies copies;
};

/// The block that runs, and the stacks, which are kept for the next one.
struct Block {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Thread> threads;
  std::vector<LaneValues> met;  // by warp: what its lanes gave when they last met
  unsigned running = 0;
  std::unique_ptr<Allocation> shared;  // dynamic; none: null
  std::string failure;
};

Block& TheBlock() {
  static Block block;
  return block;
}

bool IsSamePlace(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         std::string_view(a.file_name()) == b.file_name();
}

std::string PlaceName(const std::source_location& where) {
  const std::string_view path = where.file_name();
  return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), where.line());
}

std::string Describe(const Block& block, unsigned thread) {
  if (thread >= block.threads.size()) {
    return "does not exist";
  }
  const Thread& t = block.threads[thread];
  switch (t.state) {
    case State::kDone:
      return "has ended";
    case State::kAtBarrier:
      return "waits at the barrier " + PlaceName(t.where);
    case State::kInWarp:
      return fmt::format("is in the warp operation {} of mask {:08x}", PlaceName(t.where), t.mask);
    case State::kReady:
      break;
  }
  return "runs";
}

/// Fails the block on behalf of the running thread, which then must not go on.
void SetFailure(Block* block, const std::string& what) {
  block->failure = fmt::format("thread {}: {}", block->running, what);
}

/// The stack is forgotten, so it may hold nothing that has to be freed.
[[noreturn]] void PauseForGood() {
  for (;;) {
    Fiber::Pause();
  }
}

void ResumeThread(Block* block, unsigned thread) {
  block->running = thread;
  threadIdx.x = thread % blockDim.x;
  threadIdx.y = thread / blockDim.x % blockDim.y;
  threadIdx.z = thread / (blockDim.x * blockDim.y);
  if (!block->fibers[thread]->Resume()) {
    block->threads[thread].state = State::kDone;
  }
}

/// The lanes that `first` waits for go on if they are all there. Requires: `first` is kInWarp, and
/// no thread of its warp is ready. Returns false, with the failure set, when one of them can't come
/// any more.
bool ReleaseLanes(Block* block, unsigned first) {
  const unsigned warp = first / kLanes;
  const Thread& asking = block->threads[first];
  const unsigned mask = asking.mask;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const unsigned other = warp * kLanes + lane;
    if ((mask >> lane & 1U) == 0) {
      continue;
    }
    const bool is_here = other < block->threads.size() &&
                         block->threads[other].state == State::kInWarp &&
                         block->threads[other].mask == mask &&
                         IsSamePlace(block->threads[other].where, asking.where);
    if (!is_here) {
      block->failure = fmt::format(
          "divergence: thread {} waits in the warp operation {} of mask {:08x}, but thread {} {}",
          first,
          PlaceName(asking.where),
          mask,
          other,
          Describe(*block, other));
      return false;
    }
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1U) != 0) {
      Thread& thread = block->threads[warp * kLanes + lane];
      block->met[warp][lane] = thread.words;
      thread.state = State::kReady;
    }
  }
  return true;
}

/// The threads of a warp go on until each waits at a barrier or has ended, or there is a failure.
void RunWarp(Block* block, unsigned warp, ThreadOrder order) {
  const unsigned first = warp * kLanes;
  const auto count = static_cast<unsigned>(block->threads.size());
  const unsigned size = first + kLanes <= count ? kLanes : count - first;
  for (bool has_met = true; has_met;) {
    has_met = false;
    for (unsigned i = 0; i < size; ++i) {
      const unsigned thread = first + (order == ThreadOrder::kAscending ? i : size - 1 - i);
      if (block->threads[thread].state == State::kReady) {
        ResumeThread(block, thread);
        if (!block->failure.empty()) {
          return;
        }
      }
    }
    for (unsigned thread = first; thread < first + size; ++thread) {
      if (block->threads[thread].state == State::kInWarp) {
        if (!ReleaseLanes(block, thread)) {
          return;
        }
        has_met = true;
      }
    }
  }
}

/// Requires: every thread waits at a barrier or has ended. Returns whether they go on now;
/// otherwise all have ended, or the failure is set.
bool ReleaseBarrier(Block* block) {
  unsigned first = 0;
  while (block->threads[first].state != State::kAtBarrier) {
    if (++first == block->threads.size()) {
      return false;
    }
  }
  for (unsigned other = 0; other < block->threads.size(); ++other) {
    const Thread& thread = block->threads[other];
    if (thread.state != State::kAtBarrier ||
        !IsSamePlace(thread.where, block->threads[first].where)) {
      block->failure = fmt::format(
          "divergence: thread {} waits at the barrier {}, but thread {} {}",
          first,
          PlaceName(block->threads[first].where),
          other,
          Describe(*block, other));
      return false;
    }
  }
  for (Thread& thread : block->threads) {
    thread.state = State::kReady;
  }
  return true;
}

void RunBlock(Block* block, ThreadOrder order, const std::function<void()>& body) {
  for (size_t i = 0; i < block->threads.size(); ++i) {
    block->threads[i] = {};
    block->fibers[i]->Start(&body);
  }
  if (block->shared != nullptr) {
    std::memset(block->shared->data(), kNanByte, block->shared->size_bytes);
  }
  const auto warps = static_cast<unsigned>(block->met.size());
  do {
    for (unsigned i = 0; i < warps && block->failure.empty(); ++i) {
      RunWarp(block, order == ThreadOrder::kAscending ? i : warps - 1 - i, order);
    }
  } while (block->failure.empty() && ReleaseBarrier(block));
}

}  // namespace

std::string RunGrid(
    dim3 grid,
    dim3 block_shape,
    ThreadOrder order,
    const std::function<void()>& body,
    size_t shared_bytes) {
  const unsigned count = block_shape.x * block_shape.y * block_shape.z;
  PS_CHECK(count > 0 && count <= kThreadsPerBlockMax) << count << " threads a block";
  Block& block = TheBlock();
  block.threads.resize(count);
  block.met.resize((count + kLanes - 1) / kLanes);
  while (block.fibers.size() < count) {
    block.fibers.push_back(std::make_unique<Fiber>());
  }
  block.failure.clear();
  if (shared_bytes == 0) {
    block.shared.reset();
  } else if (block.shared == nullptr || block.shared->size_bytes != shared_bytes) {
    block.shared = std::make_unique<Allocation>(shared_bytes, std::nullopt);
  }
  gridDim = grid;
  blockDim = block_shape;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z) {
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
        RunBlock(&block, order, body);
        if (!block.failure.empty()) {
          return fmt::format(
              "block {},{},{}: {}", blockIdx.x, blockIdx.y, blockIdx.z, block.failure);
        }
      }
    }
  }
  return {};
}

void WaitForBlock(const std::source_location& where) {
  Block& block = TheBlock();
  Thread& thread = block.threads[block.running];
  thread.state = State::kAtBarrier;
  thread.where = where;
  Fiber::Pause();
}

const LaneValues& MeetWarp(
    unsigned mask, const LaneWords& words, const std::source_location& where) {
  Block& block = TheBlock();
  const unsigned self = block.running;
  if ((mask >> self % kLanes & 1U) == 0) {
    SetFailure(
        &block,
        fmt::format(
            "the warp operation {} of mask {:08x} does not name its caller",
            PlaceName(where),
            mask));
    PauseForGood();
  }
  Thread& thread = block.threads[self];
  thread.state = State::kInWarp;
  thread.where = where;
  thread.mask = mask;
  thread.words = words;
  Fiber::Pause();
  return block.met[self / kLanes];
}

uint64_t LaneValue(
    const LaneValues& values, unsigned mask, unsigned lane, const std::source_location& where) {
  if ((mask >> lane & 1U) == 0) {
    SetFailure(
        &TheBlock(),
        fmt::format(
            "the warp operation {} reads lane {}, which mask {:08x} does not name",
            PlaceName(where),
            lane,
            mask));
    PauseForGood();
  }
  return values[lane][0];
}

unsigned Lane() {
  return TheBlock().running % kLanes;
}

std::byte* DynamicShared() {
  Block& block = TheBlock();
  PS_CHECK(block.shared != nullptr) << "a block that was given no dynamic shared memory";
  return block.shared->data();
}

ThreadCopies& CopiesOfThread() {
  Block& block = TheBlock();
  return block.threads[block.running].copies;
}

void RequireAligned(
    const void* address, size_t alignment, const char* what, const std::source_location& where) {
  if (reinterpret_cast<uintptr_t>(address) % alignment != 0) {
    SetFailure(
        &TheBlock(),
        fmt::format(
            "{} {} takes an address that is no multiple of {}", what, PlaceName(where), alignment));
    PauseForGood();
  }
}

}  // namespace ps::cuda_emulation
