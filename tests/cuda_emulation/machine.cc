#include "tests/cuda_emulation/machine.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ps::cuda_emulation {
namespace {

/// While it lives, the memory of all other devices may not be touched.
class OnlyMemoryOf {
 public:
  explicit OnlyMemoryOf(int device) : device_(device) { Set(true); }

  OnlyMemoryOf(const OnlyMemoryOf&) = delete;
  OnlyMemoryOf& operator=(const OnlyMemoryOf&) = delete;

  ~OnlyMemoryOf() { Set(false); }

 private:
  void Set(bool forbidden) const {
    for (const auto& [at, allocation] : TheMachine().allocations) {
      if (allocation->is_device() && allocation->device != device_) {
        allocation->SetForbidden(forbidden);
      }
    }
  }

  const int device_;
};

/// Dynamic shared memory that any block may have.
constexpr size_t kSharedBytesUnasked = 48 << 10;

}  // namespace

Machine& TheMachine() {
  static Machine machine;
  return machine;
}

cudaError_t Report(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) {
    TheMachine().last_error = error;
  }
  return error;
}

cudaError_t Fail(int device, std::string what) {
  std::string& failure = TheMachine().on(device).failure;
  if (failure.empty()) {
    failure = std::move(what);
  }
  return Report(cudaErrorLaunchFailure);
}

cudaError_t Sticky(int device) {
  return TheMachine().on(device).failure.empty() ? cudaSuccess : Report(cudaErrorLaunchFailure);
}

bool HasDevice(int device) {
  return device >= 0 && device < TheMachine().count;
}

cudaError_t FailInCapture(const char* what) {
  return TheMachine().capturing == std::this_thread::get_id()
             ? Fail(current_device, fmt::format("{} while work is captured", what))
             : cudaSuccess;
}

size_t SharedBytesMax(int major, int minor) {
  const size_t kib = major < 8    ? 64
                     : major == 8 ? (minor == 0 || minor == 7 ? 163 : 99)
                     : major < 12 ? 227
                                  : 99;
  return kib << 10;
}

cudaError_t Launch(
    cudaStream_t stream,
    dim3 grid,
    dim3 block,
    std::function<void()> body,
    const void* kernel,
    size_t shared_bytes) {
  const Turn turn;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool is_possible = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffU &&
                           grid.y <= 0xffff && grid.z <= 0xffff && threads > 0 &&
                           threads <= kThreadsPerBlockMax;
  if (!is_possible) {
    return Report(cudaErrorInvalidConfiguration);
  }
  const int device = current_device;
  if (stream == nullptr) {
    return Fail(device, "a kernel was launched in the default stream");
  }
  if (stream->device != device) {
    return Fail(
        device,
        fmt::format(
            "a kernel was launched in a stream of device {} while {} was set",
            stream->device,
            device));
  }
  const std::map<const void*, size_t>& allowed = TheMachine().on(device).shared_bytes_max;
  const auto of_kernel = allowed.find(kernel);
  if (shared_bytes > (of_kernel == allowed.end() ? kSharedBytesUnasked : of_kernel->second)) {
    return Report(cudaErrorInvalidValue);
  }
  ++TheMachine().launches;
  if (stream->capture == nullptr) {
    NoteIssue({IssueKind::kKernel, stream});
  }
  stream->Put([grid, block, device, shared_bytes, body = std::move(body)] {
    const OnlyMemoryOf guard(device);
    return RunGrid(grid, block, TheMachine().order, body, shared_bytes);
  });
  return Sticky(device);
}

void SetMachine(int driver_version, int devices) {
  PS_CHECK(devices <= kDevicesMax);
  TheMachine().driver_version = driver_version;
  TheMachine().count = devices;
}

void SetComputeCapability(int major, int minor) {
  TheMachine().compute_major = major;
  TheMachine().compute_minor = minor;
}

void SetDeviceMemory(size_t size_bytes, int device) {
  TheMachine().on(device).memory_bytes = size_bytes == 0 ? kDeviceBytes : size_bytes;
}

int LaunchCount() {
  const Turn turn;
  return TheMachine().launches;
}

void LoseDeviceAfter(int pieces, int device) {
  TheMachine().on(device).pieces_left = pieces;
}

void SetThreadOrder(ThreadOrder order) {
  TheMachine().order = order;
}

std::string TakeFailure() {
  TheMachine().last_error = cudaSuccess;
  std::string first;
  for (Device& device : TheMachine().devices) {
    std::string failure = std::exchange(device.failure, {});
    if (first.empty()) {
      first = std::move(failure);
    }
  }
  return first;
}

Traffic TakeTraffic() {
  const Turn turn;
  return std::exchange(TheMachine().traffic, {});
}

int TakeGraphLaunches() {
  const Turn turn;
  return std::exchange(TheMachine().graph_launches, 0);
}

void NoteIssue(const Issue& issue) {
  Machine& machine = TheMachine();
  if (machine.issues) {
    machine.issues->push_back(issue);
    machine.issued.notify_all();
  }
}

IssueLog::IssueLog() {
  const Turn turn;
  PS_CHECK(!TheMachine().issues);
  TheMachine().issues.emplace();
}

IssueLog::~IssueLog() {
  const Turn turn;
  TheMachine().issues.reset();
}

std::vector<Issue> IssueLog::Take() {
  const Turn turn;
  return std::exchange(*TheMachine().issues, {});
}

std::vector<Issue> IssueLog::Await(IssueKind kind, uint64_t size_bytes) {
  Machine& machine = TheMachine();
  std::unique_lock lock(machine.mutex);
  machine.issued.wait_for(lock, std::chrono::seconds(30), [&] {
    return std::ranges::any_of(*machine.issues, [&](const Issue& issue) {
      return issue.kind == kind && issue.size_bytes == size_bytes;
    });
  });
  return *machine.issues;
}

int LiveAllocations() {
  return static_cast<int>(TheMachine().allocations.size());
}

uint64_t AllocationCount() {
  return TheMachine().allocated;
}

bool HasPeerAccess(int from, int to) {
  return TheMachine().peers.contains({from, to});
}

}  // namespace ps::cuda_emulation

void CUstream_st::RunOne() {
  ps::cuda_emulation::Work next = std::move(work.front());
  work.pop_front();
  if (next.waits_for != nullptr) {
    while (next.waits_for->passed < next.waits_for_count) {
      next.waits_for->stream->RunOne();
    }
    return;
  }
  ps::cuda_emulation::Device& on = ps::cuda_emulation::TheMachine().on(device);
  if (!next.is_mark && on.pieces_left >= 0 && on.pieces_left-- == 0) {
    static_cast<void>(ps::cuda_emulation::Fail(device, "the device was lost"));
  }
  if (next.is_mark || on.failure.empty()) {
    if (std::string failure = next.run(); !failure.empty()) {
      static_cast<void>(ps::cuda_emulation::Fail(device, std::move(failure)));
    }
  }
}
