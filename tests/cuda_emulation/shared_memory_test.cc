#include "kernels/cuda/shared_memory.cuh"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "tests/cuda_emulation/emulation_fixture.h"
#include "tests/cuda_emulation/sanitizer.h"

// Dynamic shared memory and copies that go on beside the thread; and what kernels that are broken
// on purpose do with them.

namespace ps::cuda_emulation {
namespace {

using kernels::BlockMemory;
using kernels::CommitCopies;
using kernels::CopyAsync;
using kernels::WaitForCopies;
using testing::HasSubstr;

class SharedMemoryTest : public EmulationTest {
 protected:
  static constexpr unsigned kThreads = kCount / 4;  // a thread has 16 bytes

  void SetUp() override {
    EmulationTest::SetUp();
    shared_bytes_ = kCount * sizeof(float);
  }

  void TearDown() override {
    SetComputeCapability(7, 5);
    EmulationTest::TearDown();
  }

  /// What the kernel makes of 0, 1, 2 and so on.
  std::vector<float> RunOnNumbers(
      void (*kernel)(float*), ThreadOrder order, unsigned threads = kThreads) {
    SetThreadOrder(order);
    for (int i = 0; i < kCount; ++i) {
      host_[i] = static_cast<float>(i);
    }
    EXPECT_EQ(Copy(device_, host_, cudaMemcpyHostToDevice), cudaSuccess);
    return Run(1, threads, kernel);
  }

  bool Reverses(void (*kernel)(float*), ThreadOrder order) {
    const std::vector<float> out = RunOnNumbers(kernel, order);
    for (int i = 0; i < kCount; ++i) {
      if (out[static_cast<size_t>(i)] != static_cast<float>(kCount - 1 - i)) {
        return false;
      }
    }
    return true;
  }

  bool ReversesInEitherOrder(void (*kernel)(float*)) {
    return Reverses(kernel, ThreadOrder::kAscending) && Reverses(kernel, ThreadOrder::kDescending);
  }
};

float* SharedFloats() {
  return reinterpret_cast<float*>(BlockMemory());
}

/// Whether each block finds nothing of the one before, and keeps what it writes.
__global__ void UseDynamic(float* out) {
  float* const shared = SharedFloats();
  const bool is_new = std::isnan(shared[threadIdx.x]);
  shared[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] =
      is_new && shared[blockDim.x - 1 - threadIdx.x] == static_cast<float>(31 - threadIdx.x) ? 1
                                                                                             : 0;
}

__global__ void UseDynamicToo(float* out) {
  out[0] = SharedFloats()[0];
}

TEST_F(SharedMemoryTest, EachBlockHasDynamicSharedMemoryOfItsOwn) {
  shared_bytes_ = 32 * sizeof(float);
  EXPECT_THAT(Run(3, 32, &UseDynamic), testing::Each(1.0F));
}

cudaError_t Allow(void (*kernel)(float*), size_t bytes) {
  return cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

TEST_F(SharedMemoryTest, MoreThan48KiBIsAskedForKernelByKernel) {
  shared_bytes_ = 48 << 10;
  EXPECT_EQ(Start(1, 32, &UseDynamic, device_), cudaSuccess);
  ++shared_bytes_;
  EXPECT_EQ(Start(1, 32, &UseDynamic, device_), cudaErrorInvalidValue);
  EXPECT_EQ(Allow(&UseDynamic, shared_bytes_), cudaSuccess);
  EXPECT_EQ(Start(1, 32, &UseDynamic, device_), cudaSuccess);
  EXPECT_EQ(Start(1, 32, &UseDynamicToo, device_), cudaErrorInvalidValue);
  ++shared_bytes_;
  EXPECT_EQ(Start(1, 32, &UseDynamic, device_), cudaErrorInvalidValue);
  EXPECT_EQ(Allow(&UseDynamic, 0), cudaSuccess);
}

TEST_F(SharedMemoryTest, NoKernelGetsMoreThanTheDeviceHas) {
  EXPECT_EQ(Allow(&UseDynamic, 64 << 10), cudaSuccess);
  EXPECT_EQ(Allow(&UseDynamic, (64 << 10) + 1), cudaErrorInvalidValue);
  SetComputeCapability(8, 6);
  EXPECT_EQ(Allow(&UseDynamic, 99 << 10), cudaSuccess);
  EXPECT_EQ(Allow(&UseDynamic, (99 << 10) + 1), cudaErrorInvalidValue);
  SetComputeCapability(9, 0);
  EXPECT_EQ(Allow(&UseDynamic, 227 << 10), cudaSuccess);
  EXPECT_EQ(Allow(&UseDynamic, (227 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(Allow(&UseDynamic, 0), cudaSuccess);
}

TEST_F(SharedMemoryTest, LaunchAsksForWhatItsKernelNeeds) {
  const auto launch = [this](size_t bytes) {
    return kernels::Launch(stream_, dim3(1), dim3(32), bytes, &UseDynamic, device_);
  };
  EXPECT_EQ(launch(64 << 10), cudaSuccess);
  EXPECT_EQ(launch((64 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(Allow(&UseDynamic, 0), cudaSuccess);
}

/// The thread's 16 bytes.
void Begin(const float* values) {
  CopyAsync(SharedFloats() + 4 * threadIdx.x, values + 4 * threadIdx.x, true);
}

void WriteReversed(float* out) {
  for (unsigned i = 4 * threadIdx.x; i < 4 * threadIdx.x + 4; ++i) {
    out[i] = SharedFloats()[4 * blockDim.x - 1 - i];
  }
}

__global__ void ReverseByCopies(float* values) {
  Begin(values);
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  WriteReversed(values);
}

__global__ void CopiesWithoutWait(float* values) {
  Begin(values);
  CommitCopies();
  __syncthreads();
  WriteReversed(values);
}

__global__ void CopiesWithoutCommit(float* values) {
  Begin(values);
  WaitForCopies<0>();
  __syncthreads();
  WriteReversed(values);
}

__global__ void CopiesWithoutBarrier(float* values) {
  Begin(values);
  CommitCopies();
  WaitForCopies<0>();
  WriteReversed(values);
}

/// All have met, but then each waits for its own copies alone.
__global__ void CopiesWithTheBarrierInFrontOfTheWait(float* values) {
  Begin(values);
  CommitCopies();
  __syncthreads();
  WaitForCopies<0>();
  WriteReversed(values);
}

__global__ void CopiesFromAWrongAddress(float* values) {
  CopyAsync(SharedFloats() + 4 * threadIdx.x, values + 4 * (threadIdx.x ^ 1U), true);
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  WriteReversed(values);
}

TEST_F(SharedMemoryTest, CopiesAreThereBehindTheWaitAndTheBarrier) {
  EXPECT_TRUE(ReversesInEitherOrder(&ReverseByCopies));
}

TEST_F(SharedMemoryTest, BrokenCopiesAreSeen) {
  EXPECT_THAT(
      RunOnNumbers(&CopiesWithoutWait, ThreadOrder::kAscending), testing::Each(testing::IsNan()));
  EXPECT_THAT(
      RunOnNumbers(&CopiesWithoutCommit, ThreadOrder::kAscending), testing::Each(testing::IsNan()));
  EXPECT_FALSE(ReversesInEitherOrder(&CopiesWithoutBarrier));
  EXPECT_FALSE(ReversesInEitherOrder(&CopiesWithTheBarrierInFrontOfTheWait));
  EXPECT_FALSE(ReversesInEitherOrder(&CopiesFromAWrongAddress));
}

/// Writes how many of two groups are there after each wait.
__global__ void WaitForGroups(float* values) {
  float* const shared = SharedFloats();
  for (int i = 0; i < 3; ++i) {
    CopyAsync(shared + 4 * i, values + 4 * i, true);
    CommitCopies();
  }
  const auto count = [shared] {
    int there = 0;
    for (int i = 0; i < 3; ++i) {
      there += std::isnan(shared[4 * i]) ? 0 : 1;
    }
    return static_cast<float>(there);
  };
  const float before = count();
  WaitForCopies<2>();
  const float oldest = count();
  WaitForCopies<1>();
  const float two = count();
  WaitForCopies<1>();
  const float still_two = count();
  WaitForCopies<0>();
  values[0] = before;
  values[1] = oldest;
  values[2] = two;
  values[3] = still_two;
  values[4] = count();
}

TEST_F(SharedMemoryTest, AWaitIsForAllGroupsButTheLatest) {
  std::vector<float> out = RunOnNumbers(&WaitForGroups, ThreadOrder::kAscending, 1);
  out.resize(5);
  EXPECT_THAT(out, testing::ElementsAre(0, 1, 2, 2, 3));
}

/// What is not there is not read either: the address is nobody's.
__global__ void CopyNothing(float* values) {
  CopyAsync(SharedFloats(), values + (1 << 20), false);
  CommitCopies();
  WaitForCopies<0>();
  values[0] = SharedFloats()[0] == 0 && SharedFloats()[3] == 0 ? 1 : 0;
}

TEST_F(SharedMemoryTest, ZerosComeForWhatIsNotThere) {
  EXPECT_EQ(RunOnNumbers(&CopyNothing, ThreadOrder::kAscending, 1)[0], 1);
}

/// The next copy goes where others may still read.
__global__ void CopiesOverWhatIsRead(float* values) {
  Begin(values);
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  WriteReversed(values);
  Begin(values);
  CommitCopies();
}

TEST_F(SharedMemoryTest, ACopyThatBeginsTooEarlyIsSeen) {
  EXPECT_FALSE(ReversesInEitherOrder(&CopiesOverWhatIsRead));
}

__global__ void CopyFromAFalseAddress(float* values) {
  CopyAsync(SharedFloats(), values + 2, true);
}

__global__ void CopyToAFalseAddress(float* values) {
  CopyAsync(SharedFloats() + 1, values, true);
}

TEST_F(SharedMemoryTest, AddressesOfCopiesAreMultiplesOf16) {
  EXPECT_THAT(Fault(1, &CopyFromAFalseAddress), HasSubstr("no multiple of 16"));
  EXPECT_THAT(Fault(1, &CopyToAFalseAddress), HasSubstr("thread 0: cp.async"));
}

#ifdef PS_ADDRESS_SANITIZER

__global__ void PastDynamicMemory(float* out) {
  SharedFloats()[threadIdx.x] = out[0];
}

using SharedMemoryDeathTest = SharedMemoryTest;

TEST_F(SharedMemoryDeathTest, AccessesOutOfBoundsAreFound) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_DEATH(Run(1, kCount + 1, &PastDynamicMemory), "use-after-poison");
  EXPECT_DEATH(Run(1, kThreads + 1, &ReverseByCopies), "use-after-poison") << "shared memory";
  shared_bytes_ *= 2;
  EXPECT_DEATH(Run(1, kThreads + 1, &ReverseByCopies), "use-after-poison") << "global memory";
}

#endif

}  // namespace
}  // namespace ps::cuda_emulation
