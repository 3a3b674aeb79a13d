#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/cuda_emulation/block.h"

namespace ps::cuda_emulation {

// The imaginary devices do work as late as they may: what a stream was given runs only when someone
// waits for it, or when another stream that was told to wait for it is waited for. A wait that is
// missing shows as old values. New device memory is all NaN. An access near, but not inside, an
// allocation is the address sanitizer's to find, and so is a kernel's to another device's memory.

constexpr int kDevicesMax = 16;

/// Puts a kernel into a stream of the current device. Errors: cudaErrorInvalidConfiguration for an
/// empty grid or block; cudaErrorInvalidValue for more than 48 KiB of dynamic shared memory, unless
/// cudaFuncSetAttribute has allowed this kernel so much on this device.
cudaError_t Launch(
    cudaStream_t stream,
    dim3 grid,
    dim3 block,
    std::function<void()> body,
    const void* kernel = nullptr,
    size_t shared_bytes = 0);

/// What the machine has: the version of CUDA that its driver knows (0: no driver), and how many
/// devices, at most kDevicesMax. As it begins: CUDART_VERSION and 1.
void SetMachine(int driver_version, int devices);

/// Sets that of all its devices; 7.5 at the beginning. How much shared memory a block may have
/// follows from it.
void SetComputeCapability(int major, int minor);

/// Whether cuBLASLt is installed; it is as it begins.
void SetCublas(bool is_installed);

/// An algorithm that cuBLASLt proposes for a product.
struct CublasAlgorithm {
  bool is_usable = true;         // what `state` of the proposal says
  bool is_refused = false;       // nevertheless, when it is to multiply
  uint64_t workspace_bytes = 0;  // may be more than what was offered
  int reduction_scheme = 0;      // a cublasLtReductionScheme_t; not 0: the depth is added up in
                                 // two halves
  uint64_t alignment_bytes = 1;  // of each matrix and the distance of its rows; else it is not
                                 // proposed
  double run_ms = 1;             // of the device's clock
};

/// What cuBLASLt proposes for each product from now on, the best guess first; empty: as it begins,
/// some that are not usable, and a second one that is faster than the first.
void SetCublasAlgorithms(std::vector<CublasAlgorithm> algorithms);

/// Places in that list of those that multiplied since the last call, in order.
std::vector<int> TakeCublasProducts();

/// Bytes that allocations of a device's memory may come to; 0: 2 GiB, as it begins.
void SetDeviceMemory(size_t size_bytes, int device = 0);

/// Kernels that were put into streams so far.
int LaunchCount();

/// The device is lost with the piece of work after so many more.
void LoseDeviceAfter(int pieces, int device = 0);

void SetThreadOrder(ThreadOrder order);

/// What the first fault was since the last call, of the lowest device that has one; empty when
/// there was none. Until it is taken, every call that has to do with that device fails.
std::string TakeFailure();

/// Bytes that were copied between the host and the device.
struct Traffic {
  uint64_t uploaded = 0;
  uint64_t downloaded = 0;
};

/// Since the last call.
Traffic TakeTraffic();

/// Graphs that were launched since the last call.
int TakeGraphLaunches();

enum class IssueKind : uint8_t { kUpload, kDownload, kOtherCopy, kKernel, kGraph, kHostWait };

/// What a thread of the host does: it puts a piece of work into a stream, or waits for one that is
/// not done.
struct Issue {
  IssueKind kind = IssueKind::kKernel;
  cudaStream_t stream = nullptr;  // of the work
  uint64_t size_bytes = 0;        // of copies
};

/// All that the host does so while it lives, in that order. What is recorded for a graph is not in
/// it, but each launch of the graph. One at a time. Thread: any.
class IssueLog {
 public:
  IssueLog();
  ~IssueLog();
  IssueLog(const IssueLog&) = delete;
  IssueLog& operator=(const IssueLog&) = delete;

  /// Since the last call.
  std::vector<Issue> Take();
  /// Waits, not for ever, until one of those since the last Take is such a copy; returns all those.
  std::vector<Issue> Await(IssueKind kind, uint64_t size_bytes);
};

/// Allocations of device and of pinned memory that were not freed, and all that there ever were.
int LiveAllocations();
uint64_t AllocationCount();

/// Whether `from` was told to reach the memory of `to` without a detour.
bool HasPeerAccess(int from, int to);

}  // namespace ps::cuda_emulation
