#include "tests/cuda_emulation/runtime.h"

#include <fmt/core.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "ps/base/check.h"
#include "tests/cuda_emulation/sanitizer.h"

using ps::cuda_emulation::ThreadOrder;

namespace {

/// What cudaEventRecord has put into a stream and what of it has come to pass, counted.
struct Marks {
  uint64_t recorded = 0;
  uint64_t passed = 0;
  CUstream_st* stream = nullptr;  // of the last record
};

struct Work {
  std::function<std::string()> run;            // returns a failure
  std::shared_ptr<Marks> waits_for = nullptr;  // run() is empty: this mark is to be passed instead
  uint64_t waits_for_count = 0;
  bool is_mark = false;  // passes on a lost device, too: nobody waits for that for ever
};

/// Memory between two margins that nobody may touch.
class Allocation {
 public:
  Allocation(size_t size, bool on_device)
      : size_bytes(size),
        is_device(on_device),
        memory_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, TotalBytes()))) {
    PS_CHECK(memory_ != nullptr);
    std::memset(data(), 0xff, size);
    MarkMargins(true);
  }

  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  ~Allocation() {
    MarkMargins(false);
    std::free(memory_);
  }

  std::byte* data() const { return memory_ + kMarginBytes; }

  const size_t size_bytes;
  const bool is_device;

 private:
  // Wide, so that a wrong stride does not end up in the memory of another.
  static constexpr size_t kMarginBytes = 64 << 10;
  static constexpr size_t kAlignment = 256;  // as cudaMalloc promises at least

  size_t TotalBytes() const {
    return 2 * kMarginBytes + (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  void MarkMargins(bool forbidden) const {
#ifdef PS_ADDRESS_SANITIZER
    const size_t behind = TotalBytes() - kMarginBytes - size_bytes;
    if (forbidden) {
      __asan_poison_memory_region(memory_, kMarginBytes);
      __asan_poison_memory_region(data() + size_bytes, behind);
    } else {
      __asan_unpoison_memory_region(memory_, TotalBytes());
    }
#else
    static_cast<void>(forbidden);
#endif
  }

  std::byte* const memory_;
};

constexpr size_t kDeviceBytes = size_t{1} << 31;

struct Device {
  std::map<const std::byte*, std::unique_ptr<Allocation>> allocations;
  std::set<CUstream_st*> streams;
  int driver_version = CUDART_VERSION;
  int count = 1;
  int compute_major = 7;
  int compute_minor = 5;
  size_t memory_bytes = kDeviceBytes;
  int pieces_left = -1;  // until it is lost; -1: never
  ThreadOrder order = ThreadOrder::kAscending;
  std::string failure;
  cudaError_t last_error = cudaSuccess;
};

Device& TheDevice() {
  static Device device;
  return device;
}

cudaError_t Report(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) {
    TheDevice().last_error = error;
  }
  return error;
}

cudaError_t Fail(std::string what) {
  Device& device = TheDevice();
  if (device.failure.empty()) {
    device.failure = std::move(what);
  }
  return Report(cudaErrorLaunchFailure);
}

/// A fault stays until it is taken: nothing works on a device after one.
cudaError_t Sticky() {
  return TheDevice().failure.empty() ? cudaSuccess : Report(cudaErrorLaunchFailure);
}

/// The allocation that holds all of these bytes, or null.
const Allocation* Find(const void* memory, size_t size_bytes) {
  const Device& device = TheDevice();
  const auto* at = static_cast<const std::byte*>(memory);
  auto it = device.allocations.upper_bound(at);
  if (it == device.allocations.begin()) {
    return nullptr;
  }
  --it;
  const auto offset = static_cast<size_t>(at - it->first);
  return offset + size_bytes <= it->second->size_bytes ? it->second.get() : nullptr;
}

cudaError_t Allocate(void** memory, size_t size_bytes, bool is_device) {
  if (memory == nullptr) {
    return Report(cudaErrorInvalidValue);
  }
  size_t taken = 0;
  for (const auto& [at, other] : TheDevice().allocations) {
    taken += other->is_device == is_device ? other->size_bytes : 0;
  }
  const size_t there_is = is_device ? TheDevice().memory_bytes : kDeviceBytes;
  if (taken > there_is || size_bytes > there_is - taken) {
    return Report(cudaErrorMemoryAllocation);
  }
  if (size_bytes == 0) {
    return Fail("an allocation of no bytes, of which CUDA promises nothing");
  }
  auto allocation = std::make_unique<Allocation>(size_bytes, is_device);
  *memory = allocation->data();
  TheDevice().allocations.emplace(allocation->data(), std::move(allocation));
  return Sticky();
}

}  // namespace

struct CUstream_st {
  std::deque<Work> work;

  /// Does the oldest piece of work, and first what it waits for. Requires: there is some.
  void RunOne() {
    Work next = std::move(work.front());
    work.pop_front();
    if (next.waits_for != nullptr) {
      while (next.waits_for->passed < next.waits_for_count) {
        next.waits_for->stream->RunOne();
      }
      return;
    }
    if (!next.is_mark && TheDevice().pieces_left >= 0 && TheDevice().pieces_left-- == 0) {
      static_cast<void>(Fail("the device was lost"));
    }
    if (next.is_mark || TheDevice().failure.empty()) {
      if (std::string failure = next.run(); !failure.empty()) {
        static_cast<void>(Fail(std::move(failure)));
      }
    }
  }

  void RunAll() {
    while (!work.empty()) {
      RunOne();
    }
  }
};

struct CUevent_st {
  std::shared_ptr<Marks> marks = std::make_shared<Marks>();
};

namespace {

/// cudaFree and the like wait for the whole device.
void RunEverything() {
  for (CUstream_st* stream : TheDevice().streams) {
    stream->RunAll();
  }
}

cudaError_t Free(void* memory, bool is_device) {
  if (memory == nullptr) {
    return Sticky();
  }
  RunEverything();
  Device& device = TheDevice();
  const auto it = device.allocations.find(static_cast<std::byte*>(memory));
  if (it == device.allocations.end() || it->second->is_device != is_device) {
    return Report(cudaErrorInvalidValue);
  }
  device.allocations.erase(it);
  return Sticky();
}

}  // namespace

namespace ps::cuda_emulation {

cudaError_t Launch(cudaStream_t stream, dim3 grid, dim3 block, std::function<void()> body) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool is_possible = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffU &&
                           grid.y <= 0xffff && grid.z <= 0xffff && threads > 0 &&
                           threads <= kThreadsPerBlockMax;
  if (!is_possible) {
    return Report(cudaErrorInvalidConfiguration);
  }
  if (stream == nullptr) {
    return Fail("a kernel was launched in the default stream");
  }
  stream->work.push_back({[grid, block, body = std::move(body)] {
    return RunGrid(grid, block, TheDevice().order, body);
  }});
  return Sticky();
}

void SetMachine(int driver_version, int devices) {
  TheDevice().driver_version = driver_version;
  TheDevice().count = devices;
}

void SetComputeCapability(int major, int minor) {
  TheDevice().compute_major = major;
  TheDevice().compute_minor = minor;
}

void SetDeviceMemory(size_t size_bytes) {
  TheDevice().memory_bytes = size_bytes == 0 ? kDeviceBytes : size_bytes;
}

void LoseDeviceAfter(int pieces) {
  TheDevice().pieces_left = pieces;
}

void SetThreadOrder(ThreadOrder order) {
  TheDevice().order = order;
}

std::string TakeFailure() {
  TheDevice().last_error = cudaSuccess;
  return std::exchange(TheDevice().failure, {});
}

int LiveAllocations() {
  return static_cast<int>(TheDevice().allocations.size());
}

}  // namespace ps::cuda_emulation

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  return std::exchange(TheDevice().last_error, cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = TheDevice().driver_version;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Device& device = TheDevice();
  if (device.driver_version < CUDART_VERSION) {
    return Report(cudaErrorInsufficientDriver);
  }
  *count = device.count;
  return device.count > 0 ? cudaSuccess : Report(cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= TheDevice().count) {
    return Report(cudaErrorInvalidDevice);
  }
  *properties = {};
  std::strncpy(properties->name, "emulated", sizeof(properties->name) - 1);
  properties->totalGlobalMem = size_t{1} << 31;
  properties->major = TheDevice().compute_major;
  properties->minor = TheDevice().compute_minor;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return device >= 0 && device < TheDevice().count ? Sticky() : Report(cudaErrorInvalidDevice);
}

cudaError_t cudaMalloc(void** memory, size_t size_bytes) {
  return Allocate(memory, size_bytes, true);
}

cudaError_t cudaFree(void* memory) {
  return Free(memory, true);
}

cudaError_t cudaHostAlloc(void** memory, size_t size_bytes, unsigned /*flags*/) {
  return Allocate(memory, size_bytes, false);
}

cudaError_t cudaFreeHost(void* memory) {
  return Free(memory, false);
}

cudaError_t cudaMemcpyAsync(
    void* to, const void* from, size_t size_bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (size_bytes == 0) {
    return Fail("a copy of no bytes, of which CUDA promises nothing");
  }
  if (stream == nullptr) {
    return Fail("a copy in the default stream");
  }
  const Allocation* target = Find(to, size_bytes);
  const Allocation* source = Find(from, size_bytes);
  if (target == nullptr || source == nullptr) {
    return Fail(fmt::format(
        "a copy of {} bytes {} memory that is neither the device's nor pinned, or too small",
        size_bytes,
        target == nullptr ? "to" : "from"));
  }
  if (target->is_device != (kind != cudaMemcpyDeviceToHost) ||
      source->is_device != (kind != cudaMemcpyHostToDevice)) {
    return Fail("a copy in another direction than it says");
  }
  stream->work.push_back({[to, from, size_bytes] {
    std::memmove(to, from, size_bytes);
    return std::string();
  }});
  return Sticky();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking) {
    return Fail("a stream that waits for the default stream");
  }
  *stream = new CUstream_st;
  TheDevice().streams.insert(*stream);
  return Sticky();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->RunAll();
  TheDevice().streams.erase(stream);
  delete stream;
  return Sticky();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream->RunAll();
  return Sticky();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  stream->work.push_back({nullptr, event->marks, event->marks->recorded});
  return Sticky();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new CUevent_st;
  return Sticky();
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return Sticky();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Marks* marks = event->marks.get();
  while (marks->stream != stream && marks->passed < marks->recorded) {
    marks->stream->RunOne();  // one event, one stream at a time
  }
  const uint64_t count = ++marks->recorded;
  marks->stream = stream;
  Work mark;
  mark.is_mark = true;
  mark.run = [kept = event->marks, count] {
    kept->passed = count;
    return std::string();
  };
  stream->work.push_back(std::move(mark));
  return Sticky();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Marks& marks = *event->marks;
  if (marks.passed == marks.recorded) {
    return Sticky();
  }
  marks.stream->RunOne();  // who asks often enough gets there
  return cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Marks& marks = *event->marks;
  while (marks.passed < marks.recorded) {
    marks.stream->RunOne();
  }
  return Sticky();
}
