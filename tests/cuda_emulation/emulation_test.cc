#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_emulation/emulation_fixture.h"
#include "tests/cuda_emulation/sanitizer.h"

// What the emulation runs and, with kernels that are broken on purpose, what it finds.

namespace ps::cuda_emulation {
namespace {

using testing::HasSubstr;

constexpr unsigned kAll = ~0U;

__global__ void WritePlace(float* out) {
  const unsigned thread = threadIdx.x + blockDim.x * threadIdx.y;
  out[blockIdx.x * blockDim.x * blockDim.y + thread] =
      static_cast<float>(100 * blockIdx.x + 10 * threadIdx.y + threadIdx.x);
}

TEST_F(EmulationTest, EveryThreadOfEveryBlockKnowsItsPlace) {
  const std::vector<float> out = Run(2, {8, 6}, &WritePlace);
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(
        out[static_cast<size_t>(i)], static_cast<float>(i / 48 * 100 + i % 48 / 8 * 10 + i % 8));
  }
}

/// Each thread reads its mirror image's value: right only behind the barrier.
__global__ void Reverse(float* out) {
  __shared__ float values[kThreadsPerBlockMax];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

__global__ void ReverseWithoutBarrier(float* out) {
  __shared__ float values[kThreadsPerBlockMax];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  out[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
  values[threadIdx.x] = -1;
}

TEST_F(EmulationTest, BarrierMakesSharedMemoryVisibleInEitherOrderOfThreads) {
  for (const ThreadOrder order : {ThreadOrder::kAscending, ThreadOrder::kDescending}) {
    SetThreadOrder(order);
    const std::vector<float> out = Run(1, kCount, &Reverse);
    EXPECT_EQ(out[0], kCount - 1);
    EXPECT_EQ(out[kCount - 1], 0);
  }
}

TEST_F(EmulationTest, MissingBarrierShowsInOneOrderOfThreads) {
  const std::vector<float> ascending = Run(1, kCount, &ReverseWithoutBarrier);
  SetThreadOrder(ThreadOrder::kDescending);
  EXPECT_NE(ascending, Run(1, kCount, &ReverseWithoutBarrier));
}

/// By warp: the sum by halves, the neighbour's value, the votes.
__global__ void WarpOperations(float* out) {
  const auto lane = static_cast<float>(threadIdx.x % 32);
  float sum = lane;
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(kAll, sum, distance);
  }
  const float next = __shfl_down_sync(kAll, lane, 1);
  const float third = __shfl_sync(kAll, lane, 3);
  const unsigned votes = __ballot_sync(kAll, threadIdx.x % 2 == 1);
  const bool is_right = sum == 496 && next == std::fmin(lane + 1, 31.0F) && third == 3 &&
                        votes == 0xaaaaaaaaU && __any_sync(kAll, lane == 7) &&
                        !__all_sync(kAll, lane == 7);
  __syncwarp();
  out[threadIdx.x] = is_right ? 1 : 0;
}

TEST_F(EmulationTest, ShufflesAndVotesExchangeWithinTheWarp) {
  EXPECT_THAT(Run(1, kCount, &WarpOperations), testing::Each(1.0F));
}

__global__ void Count(float* out) {
  if (threadIdx.x == 0) {
    out[blockIdx.x] = 0;
  }
  __syncthreads();
  atomicAdd(&out[blockIdx.x], 1.0F);
}

TEST_F(EmulationTest, AtomicAdditionsAllCount) {
  const std::vector<float> out = Run(3, 64, &Count);
  EXPECT_EQ(out[0] + out[1] + out[2], 192);
}

__global__ void HalfOfTheBlockWaits(float* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  }
  out[threadIdx.x] = 0;
}

__global__ void ThreadsWaitAtTwoBarriers(float* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 0;
}

__global__ void LanesDoNotMeet(float* out) {
  if (threadIdx.x % 2 == 0) {
    out[threadIdx.x] = __shfl_xor_sync(kAll, 1.0F, 2);
  }
}

__global__ void LaneOutsideOfTheMask(float* out) {
  if (threadIdx.x < 16) {
    out[threadIdx.x] = __shfl_sync(0xffffU, 1.0F, 20);
  }
}

__global__ void CallerOutsideOfTheMask(float* out) {
  out[threadIdx.x] = __shfl_sync(0xffffU, 1.0F, 2);
}

TEST_F(EmulationTest, DivergenceIsFound) {
  EXPECT_THAT(Fault(64, &HalfOfTheBlockWaits), HasSubstr("but thread 32 has ended"));
  EXPECT_THAT(Fault(64, &ThreadsWaitAtTwoBarriers), HasSubstr("thread 32 waits at the barrier"));
  EXPECT_THAT(Fault(64, &LanesDoNotMeet), HasSubstr("but thread 1 has ended"));
  EXPECT_THAT(Fault(64, &LaneOutsideOfTheMask), HasSubstr("reads lane 20"));
  EXPECT_THAT(Fault(64, &CallerOutsideOfTheMask), HasSubstr("does not name its caller"));
  EXPECT_THAT(Fault(48, &WarpOperations), HasSubstr("thread 48 does not exist"));
}

TEST_F(EmulationTest, AfterAFaultNothingWorksUntilItIsTaken) {
  ASSERT_EQ(Start(1, 64, &HalfOfTheBlockWaits, device_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  EXPECT_EQ(Start(1, kCount, &Reverse, device_), cudaErrorLaunchFailure);
  EXPECT_NE(TakeFailure(), "");
  EXPECT_EQ(Run(1, kCount, &Reverse)[0], kCount - 1);
}

TEST_F(EmulationTest, ImpossibleGridsAreRefused) {
  EXPECT_EQ(Start(0, 32, &Reverse, device_), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Start(1, 1025, &Reverse, device_), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Start({1, 1 << 16}, 32, &Reverse, device_), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(EmulationTest, NothingRunsBeforeSomeoneWaits) {
  host_[0] = 5;
  ASSERT_EQ(Start(1, kCount, &Reverse, device_), cudaSuccess);
  ASSERT_EQ(Copy(host_, device_, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(host_[0], 5);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(host_[0], kCount - 1);
}

TEST_F(EmulationTest, AStreamGoesOnBehindTheEventThatItWaitsFor) {
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  const auto copied = [&] {
    const size_t size_bytes = kCount * sizeof(float);
    EXPECT_EQ(
        cudaMemcpyAsync(host_, device_, size_bytes, cudaMemcpyDeviceToHost, other), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
    return host_[0];
  };
  ASSERT_EQ(Start(1, kCount, &Reverse, device_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_TRUE(std::isnan(copied()));
  ASSERT_EQ(cudaStreamWaitEvent(other, event, 0), cudaSuccess);
  EXPECT_EQ(copied(), kCount - 1);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

TEST_F(EmulationTest, AnEventIsReadyOnceItsStreamCameThere) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  ASSERT_EQ(Start(1, kCount, &Reverse, device_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(device_[0], kCount - 1);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(EmulationTest, CopiesAreBetweenTheDeviceAndPinnedMemory) {
  std::vector<float> pageable(kCount);
  EXPECT_EQ(Copy(device_, pageable.data(), cudaMemcpyHostToDevice), cudaErrorLaunchFailure);
  EXPECT_THAT(TakeFailure(), HasSubstr("pinned"));
  EXPECT_EQ(Copy(device_ + 1, host_, cudaMemcpyHostToDevice), cudaErrorLaunchFailure);
  EXPECT_THAT(TakeFailure(), HasSubstr("too small"));
  EXPECT_EQ(Copy(host_, device_, cudaMemcpyHostToDevice), cudaErrorLaunchFailure);
  EXPECT_THAT(TakeFailure(), HasSubstr("direction"));
}

TEST_F(EmulationTest, AnotherThreadTakesMemoryWhileThisOneCaptures) {
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  std::thread([] {
    void* memory = nullptr;
    EXPECT_EQ(cudaHostAlloc(&memory, 4, cudaHostAllocPortable), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(memory), cudaSuccess);
  }).join();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

// A worker's buffers come and go in one thread while another computes.
TEST_F(EmulationTest, ThreadsOfTheHostTakeTurns) {
  std::atomic<bool> is_over = false;
  std::thread other([&is_over] {
    while (!is_over) {
      void* memory = nullptr;
      EXPECT_EQ(cudaHostAlloc(&memory, 64, cudaHostAllocPortable), cudaSuccess);
      EXPECT_EQ(cudaFreeHost(memory), cudaSuccess);
    }
  });
  for (int round = 0; round < 300; ++round) {
    EXPECT_EQ(Run(1, kCount, &Reverse)[0], kCount - 1);
  }
  is_over = true;
  other.join();
}

/// A second device with a buffer of ones, and a stream.
class TwoDevicesTest : public EmulationTest {
 protected:
  void SetUp() override {
    EmulationTest::SetUp();
    SetMachine(CUDART_VERSION, 2);
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&other_stream_, cudaStreamNonBlocking), cudaSuccess);
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, kBytes), cudaSuccess);
    other_ = static_cast<float*>(memory);
    std::fill_n(other_, kCount, 1.0F);
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }

  void TearDown() override {
    EXPECT_EQ(cudaStreamDestroy(other_stream_), cudaSuccess);
    EXPECT_EQ(cudaFree(other_), cudaSuccess);
    EmulationTest::TearDown();
    SetMachine(CUDART_VERSION, 1);
  }

  static constexpr size_t kBytes = kCount * sizeof(float);
  cudaStream_t other_stream_ = nullptr;
  float* other_ = nullptr;
};

TEST_F(TwoDevicesTest, ACopyFromOneToTheOtherSaysThatItIs) {
  EXPECT_EQ(
      cudaMemcpyAsync(device_, other_, kBytes, cudaMemcpyDeviceToDevice, stream_),
      cudaErrorLaunchFailure);
  EXPECT_EQ(TakeFailure(), "a copy in a stream of device 0 touches the memory of device 1");
  EXPECT_EQ(
      cudaMemcpyAsync(host_, other_, kBytes, cudaMemcpyDeviceToHost, stream_),
      cudaErrorLaunchFailure);
  EXPECT_EQ(TakeFailure(), "a copy in a stream of device 0 touches the memory of device 1");
  EXPECT_EQ(
      cudaMemcpyAsync(device_, device_, kBytes, cudaMemcpyDefault, other_stream_),
      cudaErrorLaunchFailure);
  EXPECT_EQ(TakeFailure(), "a copy in a stream of device 1 touches the memory of device 0");
  EXPECT_EQ(
      cudaMemcpyAsync(device_, other_, kBytes, cudaMemcpyDefault, other_stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other_stream_), cudaSuccess);
  EXPECT_EQ(device_[kCount - 1], 1);
}

TEST_F(TwoDevicesTest, AStreamAndAnEventBelongToTheDeviceThatWasSet) {
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(Start(1, kCount, &Reverse, other_), cudaErrorLaunchFailure);
  EXPECT_EQ(TakeFailure(), "a kernel was launched in a stream of device 0 while 1 was set");
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, other_stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaSuccess) << "any stream may wait";
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

TEST_F(TwoDevicesTest, EachThreadOfTheHostSetsADeviceForItself) {
  std::thread([] { EXPECT_EQ(cudaSetDevice(1), cudaSuccess); }).join();
  EXPECT_EQ(Start(1, 32, &Reverse, device_), cudaSuccess) << "in a stream of device 0";
  std::thread([this] {
    EXPECT_EQ(Start(1, 32, &Reverse, device_), cudaSuccess) << "a thread begins with device 0";
  }).join();
}

TEST_F(TwoDevicesTest, EachHasItsOwnMemoryAndFailsAlone) {
  SetDeviceMemory(2 * kBytes, 1);
  void* memory = nullptr;
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, kBytes + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, kBytes + 1), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  SetDeviceMemory(0, 1);
  LoseDeviceAfter(0, 1);
  EXPECT_EQ(
      cudaMemcpyAsync(host_, other_, kBytes, cudaMemcpyDeviceToHost, other_stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other_stream_), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(Run(1, kCount, &Reverse)[0], kCount - 1) << "the other one goes on";
  EXPECT_EQ(TakeFailure(), "the device was lost");
  LoseDeviceAfter(-1, 1);
}

#ifdef PS_ADDRESS_SANITIZER

using TwoDevicesDeathTest = TwoDevicesTest;

TEST_F(TwoDevicesDeathTest, AKernelThatTouchesTheOthersMemoryIsFound) {
  GTEST_FLAG_SET(death_test_style, "fast");
  const auto reverse_other = [this] {
    static_cast<void>(Start(1, kCount, &Reverse, other_));
    static_cast<void>(cudaStreamSynchronize(stream_));
  };
  EXPECT_DEATH(reverse_other(), "use-after-poison");
}

__global__ void PastSharedMemory(float* out) {
  __shared__ float values[32];
  float* at = values;  // the bounds of a pointer are not known to the compiler
  at[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x % 32];
}

__global__ void PastARowOfSharedMemory(float* out) {
  __shared__ float tile[4][8];
  tile[threadIdx.x % 4][threadIdx.x / 4] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x % 4][0];
}

__global__ void PastGlobalMemory(float* out) {
  out[threadIdx.x] = 1;
}

__global__ void InFrontOfGlobalMemory(float* out) {
  out[static_cast<int>(threadIdx.x) - 5000] = 1;
}

__global__ void PastALocalArray(float* out) {
  float values[4] = {};
  float* at = values;
  at[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = at[threadIdx.x % 4];
}

using EmulationDeathTest = EmulationTest;

TEST_F(EmulationDeathTest, AccessesOutOfBoundsAreFound) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_DEATH(Run(1, 33, &PastSharedMemory), "global-buffer-overflow|insufficient space");
  EXPECT_DEATH(Run(1, 36, &PastARowOfSharedMemory), "out of bounds");
  EXPECT_DEATH(Run(1, kCount + 1, &PastGlobalMemory), "use-after-poison");
  EXPECT_DEATH(Run(1, 1, &InFrontOfGlobalMemory), "use-after-poison");
  EXPECT_DEATH(Run(1, 5, &PastALocalArray), "stack-buffer-overflow|insufficient space");
}

#endif

}  // namespace
}  // namespace ps::cuda_emulation
