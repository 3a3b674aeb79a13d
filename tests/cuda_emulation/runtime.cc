#include "tests/cuda_emulation/runtime.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

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
  /// Of no device: pinned memory.
  Allocation(size_t size, std::optional<int> on)
      : size_bytes(size),
        device(on),
        memory_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, TotalBytes()))) {
    PS_CHECK(memory_ != nullptr);
    std::memset(data(), 0xff, size);
    Mark(0, kMarginBytes, true);
    Mark(kMarginBytes + size, TotalBytes(), true);
  }

  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  ~Allocation() {
    Mark(0, TotalBytes(), false);
    std::free(memory_);
  }

  std::byte* data() const { return memory_ + kMarginBytes; }

  bool is_device() const { return device.has_value(); }

  /// What is inside may not be touched for a while.
  void SetForbidden(bool forbidden) const {
    Mark(kMarginBytes, kMarginBytes + size_bytes, forbidden);
  }

  const size_t size_bytes;
  const std::optional<int> device;

 private:
  // Wide, so that a wrong stride does not end up in the memory of another.
  static constexpr size_t kMarginBytes = 64 << 10;
  static constexpr size_t kAlignment = 256;  // as cudaMalloc promises at least

  size_t TotalBytes() const {
    return 2 * kMarginBytes + (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  void Mark(size_t begin, size_t end, bool forbidden) const {
#ifdef PS_ADDRESS_SANITIZER
    if (forbidden) {
      __asan_poison_memory_region(memory_ + begin, end - begin);
    } else {
      __asan_unpoison_memory_region(memory_ + begin, end - begin);
    }
#else
    static_cast<void>(begin);
    static_cast<void>(end);
    static_cast<void>(forbidden);
#endif
  }

  std::byte* const memory_;
};

constexpr size_t kDeviceBytes = size_t{1} << 31;

struct Device {
  size_t memory_bytes = kDeviceBytes;
  int pieces_left = -1;  // until it is lost; -1: never
  std::string failure;
};

struct Machine {
  std::map<const std::byte*, std::unique_ptr<Allocation>> allocations;
  std::set<CUstream_st*> streams;
  std::array<Device, ps::cuda_emulation::kDevicesMax> devices;
  std::set<std::pair<int, int>> peers;  // from, to
  int driver_version = CUDART_VERSION;
  int count = 1;
  int current = 0;  // device of the host's thread
  int compute_major = 7;
  int compute_minor = 5;
  ThreadOrder order = ThreadOrder::kAscending;
  cudaError_t last_error = cudaSuccess;
  uint64_t allocated = 0;
  int launches = 0;
  ps::cuda_emulation::Traffic traffic;
  int graph_launches = 0;
  bool is_capturing = false;  // in some stream

  Device& on(int device) { return devices[static_cast<size_t>(device)]; }
};

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

/// A fault stays until it is taken: nothing works on a device after one.
cudaError_t Sticky(int device) {
  return TheMachine().on(device).failure.empty() ? cudaSuccess : Report(cudaErrorLaunchFailure);
}

bool HasDevice(int device) {
  return device >= 0 && device < TheMachine().count;
}

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

/// What may not be done while work is captured: the graph would not have it.
cudaError_t FailInCapture(const char* what) {
  return TheMachine().is_capturing
             ? Fail(TheMachine().current, fmt::format("{} while work is captured", what))
             : cudaSuccess;
}

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

/// Of the current device's memory, or pinned.
cudaError_t Allocate(void** memory, size_t size_bytes, bool is_device) {
  if (memory == nullptr) {
    return Report(cudaErrorInvalidValue);
  }
  if (const cudaError_t error = FailInCapture("memory was taken"); error != cudaSuccess) {
    return error;
  }
  Machine& machine = TheMachine();
  const std::optional<int> device = is_device ? std::optional(machine.current) : std::nullopt;
  size_t taken = 0;
  for (const auto& [at, other] : machine.allocations) {
    taken += other->device == device ? other->size_bytes : 0;
  }
  const size_t there_is = is_device ? machine.on(*device).memory_bytes : kDeviceBytes;
  if (taken > there_is || size_bytes > there_is - taken) {
    return Report(cudaErrorMemoryAllocation);
  }
  if (size_bytes == 0) {
    return Fail(machine.current, "an allocation of no bytes, of which CUDA promises nothing");
  }
  auto allocation = std::make_unique<Allocation>(size_bytes, device);
  *memory = allocation->data();
  machine.allocations.emplace(allocation->data(), std::move(allocation));
  ++machine.allocated;
  return Sticky(machine.current);
}

}  // namespace

struct CUgraph_st {
  std::vector<std::function<std::string()>> work;
};

struct CUgraphExec_st {
  std::vector<std::function<std::string()>> work;
};

struct CUstream_st {
  const int device;
  std::deque<Work> work = {};
  std::unique_ptr<CUgraph_st> capture = nullptr;  // work goes there instead

  void Put(std::function<std::string()> run) {
    if (capture != nullptr) {
      capture->work.push_back(std::move(run));
    } else {
      work.push_back({std::move(run)});
    }
  }

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
    Device& on = TheMachine().on(device);
    if (!next.is_mark && on.pieces_left >= 0 && on.pieces_left-- == 0) {
      static_cast<void>(Fail(device, "the device was lost"));
    }
    if (next.is_mark || on.failure.empty()) {
      if (std::string failure = next.run(); !failure.empty()) {
        static_cast<void>(Fail(device, std::move(failure)));
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
  const int device;
  std::shared_ptr<Marks> marks = std::make_shared<Marks>();
};

namespace {

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
    return Sticky(machine.current);
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
  return Sticky(machine.current);
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

namespace ps::cuda_emulation {

cudaError_t Launch(cudaStream_t stream, dim3 grid, dim3 block, std::function<void()> body) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool is_possible = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffU &&
                           grid.y <= 0xffff && grid.z <= 0xffff && threads > 0 &&
                           threads <= kThreadsPerBlockMax;
  if (!is_possible) {
    return Report(cudaErrorInvalidConfiguration);
  }
  const int device = TheMachine().current;
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
  ++TheMachine().launches;
  stream->Put([grid, block, device, body = std::move(body)] {
    const OnlyMemoryOf guard(device);
    return RunGrid(grid, block, TheMachine().order, body);
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
  return std::exchange(TheMachine().traffic, {});
}

int TakeGraphLaunches() {
  return std::exchange(TheMachine().graph_launches, 0);
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
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "peer access is already enabled";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  return std::exchange(TheMachine().last_error, cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = TheMachine().driver_version;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Machine& machine = TheMachine();
  if (machine.driver_version < CUDART_VERSION) {
    return Report(cudaErrorInsufficientDriver);
  }
  *count = machine.count;
  return machine.count > 0 ? cudaSuccess : Report(cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!HasDevice(device)) {
    return Report(cudaErrorInvalidDevice);
  }
  *properties = {};
  std::strncpy(properties->name, "emulated", sizeof(properties->name) - 1);
  properties->totalGlobalMem = TheMachine().on(device).memory_bytes;
  properties->major = TheMachine().compute_major;
  properties->minor = TheMachine().compute_minor;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!HasDevice(device)) {
    return Report(cudaErrorInvalidDevice);
  }
  TheMachine().current = device;
  return Sticky(device);
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!HasDevice(device) || !HasDevice(peer)) {
    return Report(cudaErrorInvalidDevice);
  }
  *can = device == peer ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned /*flags*/) {
  Machine& machine = TheMachine();
  if (!HasDevice(peer) || peer == machine.current) {
    return Report(cudaErrorInvalidDevice);
  }
  const bool is_new = machine.peers.emplace(machine.current, peer).second;
  return is_new ? Sticky(machine.current) : Report(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaMalloc(void** memory, size_t size_bytes) {
  return Allocate(memory, size_bytes, true);
}

cudaError_t cudaFree(void* memory) {
  return Free(memory, true);
}

cudaError_t cudaHostAlloc(void** memory, size_t size_bytes, unsigned flags) {
  if (flags != cudaHostAllocPortable) {
    return Fail(TheMachine().current, "pinned memory that is not promised to other devices");
  }
  return Allocate(memory, size_bytes, false);
}

cudaError_t cudaFreeHost(void* memory) {
  return Free(memory, false);
}

cudaError_t cudaMemcpyAsync(
    void* to, const void* from, size_t size_bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (stream == nullptr) {
    return Fail(TheMachine().current, "a copy in the default stream");
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
  stream->Put([to, from, size_bytes] {
    std::memmove(to, from, size_bytes);
    return std::string();
  });
  return Sticky(stream->device);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const int device = TheMachine().current;
  if (flags != cudaStreamNonBlocking) {
    return Fail(device, "a stream that waits for the default stream");
  }
  *stream = new CUstream_st{device};
  TheMachine().streams.insert(*stream);
  return Sticky(device);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const int device = stream->device;
  stream->RunAll();
  TheMachine().streams.erase(stream);
  delete stream;
  return Sticky(device);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = FailInCapture("a stream was waited for"); error != cudaSuccess) {
    return error;
  }
  stream->RunAll();
  return Sticky(stream->device);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  if (const cudaError_t error = FailInCapture("an event was waited for"); error != cudaSuccess) {
    return error;
  }
  stream->work.push_back({nullptr, event->marks, event->marks->recorded});
  return Sticky(stream->device);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new CUevent_st{TheMachine().current};
  return Sticky((*event)->device);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const int device = event->device;
  delete event;
  return Sticky(device);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->device != stream->device) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  if (const cudaError_t error = FailInCapture("an event was recorded"); error != cudaSuccess) {
    return error;
  }
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
  return Sticky(stream->device);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Marks& marks = *event->marks;
  if (marks.passed == marks.recorded) {
    return Sticky(event->device);
  }
  marks.stream->RunOne();  // who asks often enough gets there
  return cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = FailInCapture("an event was waited for"); error != cudaSuccess) {
    return error;
  }
  const Marks& marks = *event->marks;
  while (marks.passed < marks.recorded) {
    marks.stream->RunOne();
  }
  return Sticky(event->device);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  if (stream == nullptr || TheMachine().is_capturing) {
    return Report(cudaErrorStreamCaptureUnsupported);
  }
  stream->capture = std::make_unique<CUgraph_st>();
  TheMachine().is_capturing = true;
  return Sticky(TheMachine().current);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (stream->capture == nullptr) {
    return Report(cudaErrorStreamCaptureUnsupported);
  }
  const std::unique_ptr<CUgraph_st> captured = std::exchange(stream->capture, nullptr);
  TheMachine().is_capturing = false;
  const cudaError_t error = Sticky(stream->device);
  *graph = error == cudaSuccess ? new CUgraph_st(*captured) : nullptr;
  return error;
}

cudaError_t cudaGraphInstantiate(
    cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long /*flags*/) {
  *executable = new CUgraphExec_st{graph->work};
  return Sticky(TheMachine().current);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return Sticky(TheMachine().current);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return Sticky(TheMachine().current);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  ++TheMachine().graph_launches;
  for (const std::function<std::string()>& run : executable->work) {
    stream->Put(run);
  }
  return Sticky(TheMachine().current);
}
