// Memory and copies of CUDA's runtime.

#include <fmt/core.h>

#include <cstring>

#include "tests/cuda_emulation/machine.h"

using ps::cuda_emulation::Allocation;
using ps::cuda_emulation::current_device;
using ps::cuda_emulation::Fail;
using ps::cuda_emulation::FailInCapture;
using ps::cuda_emulation::IssueKind;
using ps::cuda_emulation::kDeviceBytes;
using ps::cuda_emulation::Machine;
using ps::cuda_emulation::NoteIssue;
using ps::cuda_emulation::Report;
using ps::cuda_emulation::Sticky;
using ps::cuda_emulation::TheMachine;
using ps::cuda_emulation::Turn;

namespace {

/// The allocation that holds all of these bytes, or null.
const Allocation* Find(const void* memory, size_t size_bytes) {
  const auto& allocations = TheMachine().allocations;
  const auto* at = static_cast<const std::byte*>(memory);
  auto it = allocations.upper_bound(at);
  if (it == allocations.begin()) {
    return nullptr;
  }
  --it;
  const auto offset = static_cast<size_t>(at - it->first);
  return offset + size_bytes <= it->second->size_bytes ? it->second.get() : nullptr;
}

/// The current device's memory, or pinned memory.
cudaError_t Allocate(void** memory, size_t size_bytes, bool is_device) {
  if (memory == nullptr) {
    return Report(cudaErrorInvalidValue);
  }
  if (const cudaError_t error = FailInCapture("memory was taken"); error != cudaSuccess) {
    return error;
  }
  Machine& machine = TheMachine();
  const std::optional<int> device = is_device ? std::optional(current_device) : std::nullopt;
  size_t taken = 0;
  for (const auto& [at, other] : machine.allocations) {
    taken += other->device == device ? other->size_bytes : 0;
  }
  const size_t there_is = is_device ? machine.on(*device).memory_bytes : kDeviceBytes;
  if (taken > there_is || size_bytes > there_is - taken) {
    return Report(cudaErrorMemoryAllocation);
  }
  if (size_bytes == 0) {
    return Fail(current_device, "an allocation of no bytes, of which CUDA promises nothing");
  }
  auto allocation = std::make_unique<Allocation>(size_bytes, device);
  *memory = allocation->data();
  machine.allocations.emplace(allocation->data(), std::move(allocation));
  ++machine.allocated;
  return Sticky(current_device);
}

/// cudaFree and the like wait for the whole device; nullopt: for all of them.
void RunEverything(std::optional<int> device) {
  for (CUstream_st* stream : TheMachine().streams) {
    if (!device || stream->device == *device) {
      stream->RunAll();
    }
  }
}

cudaError_t Free(void* memory, bool is_device) {
  Machine& machine = TheMachine();
  if (memory == nullptr) {
    return Sticky(current_device);
  }
  if (const cudaError_t error = FailInCapture("memory was freed"); error != cudaSuccess) {
    return error;
  }
  const auto it = machine.allocations.find(static_cast<std::byte*>(memory));
  if (it == machine.allocations.end() || it->second->is_device() != is_device) {
    return Report(cudaErrorInvalidValue);
  }
  RunEverything(it->second->device);
  machine.allocations.erase(it);
  return Sticky(current_device);
}

/// What is wrong with a copy in a stream of `device`; empty: nothing. cudaMemcpyDefault alone may
/// go from one device to another.
std::string CopyFault(
    int device, const Allocation* to, const Allocation* from, size_t size_bytes, int kind) {
  if (to == nullptr || from == nullptr) {
    return fmt::format(
        "a copy of {} bytes {} memory that is neither the device's nor pinned, or too small",
        size_bytes,
        to == nullptr ? "to" : "from");
  }
  const bool is_across = kind == cudaMemcpyDefault;
  if (to->is_device() != (is_across || kind != cudaMemcpyDeviceToHost) ||
      from->is_device() != (is_across || kind != cudaMemcpyHostToDevice)) {
    return "a copy in another direction than it says";
  }
  const bool is_to_here = to->device.value_or(device) == device;
  const bool is_from_here = from->device.value_or(device) == device;
  if (is_across ? !is_to_here && !is_from_here : !is_to_here || !is_from_here) {
    return fmt::format(
        "a copy in a stream of device {} touches the memory of device {}",
        device,
        is_to_here ? *from->device : *to->device);
  }
  return {};
}

}  // namespace

cudaError_t cudaMalloc(void** memory, size_t size_bytes) {
  const Turn turn;
  return Allocate(memory, size_bytes, true);
}

cudaError_t cudaFree(void* memory) {
  const Turn turn;
  return Free(memory, true);
}

cudaError_t cudaHostAlloc(void** memory, size_t size_bytes, unsigned flags) {
  const Turn turn;
  if (flags != cudaHostAllocPortable) {
    return Fail(current_device, "pinned memory that is not promised to other devices");
  }
  return Allocate(memory, size_bytes, false);
}

cudaError_t cudaFreeHost(void* memory) {
  const Turn turn;
  return Free(memory, false);
}

cudaError_t cudaMemcpyAsync(
    void* to, const void* from, size_t size_bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const Turn turn;
  if (stream == nullptr) {
    return Fail(current_device, "a copy in the default stream");
  }
  if (size_bytes == 0) {
    return Fail(stream->device, "a copy of no bytes, of which CUDA promises nothing");
  }
  std::string fault =
      CopyFault(stream->device, Find(to, size_bytes), Find(from, size_bytes), size_bytes, kind);
  if (!fault.empty()) {
    return Fail(stream->device, std::move(fault));
  }
  if (const cudaError_t error = FailInCapture("a copy was put into a stream");
      error != cudaSuccess) {
    return error;
  }
  TheMachine().traffic.uploaded += kind == cudaMemcpyHostToDevice ? size_bytes : 0;
  TheMachine().traffic.downloaded += kind == cudaMemcpyDeviceToHost ? size_bytes : 0;
  NoteIssue(
      {kind == cudaMemcpyHostToDevice   ? IssueKind::kUpload
       : kind == cudaMemcpyDeviceToHost ? IssueKind::kDownload
                                        : IssueKind::kOtherCopy,
       stream,
       size_bytes});
  stream->Put([to, from, size_bytes] {
    std::memmove(to, from, size_bytes);
    return std::string();
  });
  return Sticky(stream->device);
}
