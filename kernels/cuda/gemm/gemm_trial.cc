#include "kernels/cuda/gemm/gemm_trial.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "kernels/cuda/stream.h"

namespace ps::kernels {
namespace {

constexpr int kRuns = 3;  // that are timed
/// After this share of the time for all of them no other run of one algorithm is begun.
constexpr float kShare = 0.1F;
constexpr float kClearly = 0.97F;
constexpr float kOnceMs = 0.5F;  // that products are timed together for, if they are short
constexpr int kAtOnceMax = 64;

/// Times what a stream does.
class StopWatch {
 public:
  explicit StopWatch(cudaStream_t stream) : stream_(stream) {
    Note(cudaEventCreateWithFlags(&begin_, cudaEventDefault));
    Note(cudaEventCreateWithFlags(&end_, cudaEventDefault));
  }

  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

  ~StopWatch() {
    for (cudaEvent_t event : {begin_, end_}) {
      if (event != nullptr) {
        static_cast<void>(cudaEventDestroy(event));
      }
    }
  }

  /// Milliseconds; nullopt: it was refused, or the device has failed.
  std::optional<float> Time(const std::function<bool()>& work) {
    if (error_ != cudaSuccess) {
      return std::nullopt;
    }
    Note(cudaEventRecord(begin_, stream_));
    const bool is_done = work();
    Note(cudaEventRecord(end_, stream_));
    Note(cudaEventSynchronize(end_));
    float milliseconds = 0;
    Note(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return is_done && error_ == cudaSuccess ? std::optional(milliseconds) : std::nullopt;
  }

  cudaError_t error() const { return error_; }

 private:
  void Note(cudaError_t error) { error_ = error_ == cudaSuccess ? error : error_; }

  const cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  cudaError_t error_ = cudaSuccess;  // the first
};

}  // namespace

Result<size_t> FastestOf(
    cudaStream_t stream, std::span<const GemmAlgorithm> algorithms, const RunProduct& run) {
  StopWatch watch(stream);
  size_t fastest = 0;
  float least_ms = std::numeric_limits<float>::infinity();
  float spent_ms = 0;
  for (size_t i = 0; i < algorithms.size() && spent_ms < kTrialMs; ++i) {
    float own_ms = 0;
    float own_least_ms = std::numeric_limits<float>::infinity();
    int at_once = 1;
    for (int number = 0; number <= kRuns; ++number) {
      const std::optional<float> ms = watch.Time([&] {
        bool is_done = true;
        for (int k = 0; k < at_once && is_done; ++k) {
          is_done = run(algorithms[i]);
        }
        return is_done;
      });
      if (!ms) {
        break;
      }
      if (number == 0) {  // it loads the kernel
        continue;
      }
      own_ms += *ms;
      const float each_ms = *ms / static_cast<float>(at_once);
      own_least_ms = each_ms < own_least_ms ? each_ms : own_least_ms;
      if (own_ms > kShare * kTrialMs) {
        break;
      }
      // A short product by itself takes as long as the host needs to start it.
      at_once = std::clamp(static_cast<int>(kOnceMs / std::max(each_ms, 1e-3F)), 1, kAtOnceMax);
    }
    spent_ms += own_ms;
    const bool is_first = least_ms == std::numeric_limits<float>::infinity();
    if (own_least_ms < (is_first ? least_ms : kClearly * least_ms)) {
      least_ms = own_least_ms;
      fastest = i;
    }
  }
  if (watch.error() != cudaSuccess) {
    return DeviceFailed("timing products", watch.error());
  }
  return fastest;
}

Status TrialMemory::Take(size_t size_bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, size_bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // no later call is to report it again
    return Status::Ok();
  }
  data_ = static_cast<std::byte*>(data);
  return error == cudaSuccess ? Status::Ok() : DeviceFailed("taking memory for a trial", error);
}

TrialMemory::~TrialMemory() {
  if (data_ != nullptr) {
    // A failure is one of the device, which its streams report.
    static_cast<void>(cudaFree(data_));
  }
}

}  // namespace ps::kernels
