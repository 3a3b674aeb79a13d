#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ps/base/check.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/cuda_emulation/sanitizer.h"

// The imaginary machine. Private to this folder; runtime.h is what tests say to it.

namespace ps::cuda_emulation {

/// What cudaEventRecord has put into a stream and what of it has come to pass, counted.
struct Marks {
  uint64_t recorded = 0;
  uint64_t passed = 0;
  CUstream_st* stream = nullptr;  // of the last record
  double passed_ms = 0;           // the device's clock at the last that was passed
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
  /// Without a device it is pinned memory.
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

inline constexpr size_t kDeviceBytes = size_t{1} << 31;

struct Device {
  size_t memory_bytes = kDeviceBytes;
  int pieces_left = -1;  // until it is lost; -1: never
  double clock_ms = 0;   // only cuBLASLt's products take time
  std::string failure;
  std::map<const void*, size_t> shared_bytes_max;  // of kernels that may have more than 48 KiB
};

/// What a block may have, when it says so, on devices of this compute capability.
size_t SharedBytesMax(int major, int minor);

struct Machine {
  std::mutex mutex;  // of Turn
  std::map<const std::byte*, std::unique_ptr<Allocation>> allocations;
  std::set<CUstream_st*> streams;
  std::array<Device, kDevicesMax> devices;
  std::set<std::pair<int, int>> peers;  // from, to
  int driver_version = CUDART_VERSION;
  int count = 1;
  int compute_major = 7;
  int compute_minor = 5;
  ThreadOrder order = ThreadOrder::kAscending;
  cudaError_t last_error = cudaSuccess;
  uint64_t allocated = 0;
  int launches = 0;
  Traffic traffic;
  int graph_launches = 0;
  std::optional<std::vector<Issue>> issues;  // of an IssueLog
  std::condition_variable issued;
  std::optional<std::thread::id> capturing;  // who captures, in some stream

  Device& on(int device) { return devices[static_cast<size_t>(device)]; }
};

Machine& TheMachine();

/// One call of a thread of the host, while those of others wait.
class Turn {
 private:
  const std::lock_guard<std::mutex> lock_{TheMachine().mutex};
};

/// Something goes into a stream that captures nothing. Requires: a Turn.
void NoteIssue(const Issue& issue);

/// The device that this thread of the host has set.
inline thread_local int current_device = 0;

/// Returns the error, and keeps it for cudaGetLastError.
cudaError_t Report(cudaError_t error);

/// A fault of a device, of which the first is kept.
cudaError_t Fail(int device, std::string what);

/// A fault stays until it is taken: nothing works on a device after one.
cudaError_t Sticky(int device);

bool HasDevice(int device);

/// What a thread may not do while it captures work: the graph would not have it.
cudaError_t FailInCapture(const char* what);

}  // namespace ps::cuda_emulation

struct CUgraph_st {
  std::vector<std::function<std::string()>> work;
};

struct CUgraphExec_st {
  std::vector<std::function<std::string()>> work;
};

struct CUstream_st {
  const int device;
  std::deque<ps::cuda_emulation::Work> work = {};
  std::unique_ptr<CUgraph_st> capture = nullptr;  // work goes there instead

  void Put(std::function<std::string()> run) {
    if (capture != nullptr) {
      capture->work.push_back(std::move(run));
    } else {
      work.push_back({std::move(run)});
    }
  }

  /// Does the oldest piece of work, and first what it waits for. Requires: there is some.
  void RunOne();

  void RunAll() {
    while (!work.empty()) {
      RunOne();
    }
  }
};

struct CUevent_st {
  const int device;
  const bool has_time = false;
  std::shared_ptr<ps::cuda_emulation::Marks> marks = std::make_shared<ps::cuda_emulation::Marks>();
};
