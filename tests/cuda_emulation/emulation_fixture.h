#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace ps::cuda_emulation {

/// A stream, a device buffer, and pinned memory of the same size.
class EmulationTest : public testing::Test {
 protected:
  static constexpr int kCount = 96;

  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, kCount * sizeof(float)), cudaSuccess);
    device_ = static_cast<float*>(memory);
    ASSERT_EQ(cudaHostAlloc(&memory, kCount * sizeof(float), cudaHostAllocPortable), cudaSuccess);
    host_ = static_cast<float*>(memory);
  }

  void TearDown() override {
    SetThreadOrder(ThreadOrder::kAscending);
    TakeFailure();
    EXPECT_EQ(cudaFree(device_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(host_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(LiveAllocations(), 0);
  }

  template <typename... Parameters, typename... Arguments>
  cudaError_t Start(
      dim3 grid, dim3 block, void (*kernel)(Parameters...), Arguments... arguments) const {
    const cudaLaunchConfig_t config{
        .gridDim = grid, .blockDim = block, .dynamicSmemBytes = shared_bytes_, .stream = stream_};
    return cudaLaunchKernelEx(&config, kernel, arguments...);
  }

  /// Starts the kernel on the device buffer and returns what it left there.
  std::vector<float> Run(dim3 grid, dim3 block, void (*kernel)(float*)) {
    EXPECT_EQ(Start(grid, block, kernel, device_), cudaSuccess);
    EXPECT_EQ(Copy(host_, device_, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return {host_, host_ + kCount};
  }

  /// What is found when the kernel runs.
  std::string Fault(dim3 block, void (*kernel)(float*)) {
    EXPECT_EQ(Start(1, block, kernel, device_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
    return TakeFailure();
  }

  cudaError_t Copy(void* to, const void* from, cudaMemcpyKind kind) const {
    return cudaMemcpyAsync(to, from, kCount * sizeof(float), kind, stream_);
  }

  size_t shared_bytes_ = 0;  // dynamic, of all kernels that it starts
  cudaStream_t stream_ = nullptr;
  float* device_ = nullptr;
  float* host_ = nullptr;
};

}  // namespace ps::cuda_emulation
