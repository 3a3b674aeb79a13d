#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/portable_op.h"
#include "ps/base/status.h"

namespace ps::kernels {

/// Positions that a block adds up side by side.
constexpr unsigned kPositionsBeside = 8;

/// Blocks of 32 channels of a sample by some positions.
template <int each, typename Function>
__global__ void SumPositionsKernel(ChannelShape shape, Function function, float* sums) {
  __shared__ float shared[kPositionsBeside][each][32];
  const int64_t c = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  for (int64_t n = blockIdx.y; n < shape.n; n += gridDim.y) {
    const int64_t row = n * shape.channels + c;
    float own[each] = {};
    for (int64_t p = threadIdx.y; p < shape.positions && c < shape.channels;
         p += kPositionsBeside) {
      float values[each];
      function((n * shape.positions + p) * shape.channels + c, row, c, values);
      PS_UNROLL
      for (int k = 0; k < each; ++k) {
        own[k] += values[k];
      }
    }
    PS_UNROLL
    for (int k = 0; k < each; ++k) {
      shared[threadIdx.y][k][threadIdx.x] = own[k];
    }
    __syncthreads();
    if (threadIdx.y == 0 && c < shape.channels) {
      for (int k = 0; k < each; ++k) {
        float sum = 0;
        for (unsigned p = 0; p < kPositionsBeside; ++p) {
          sum += shared[p][k][threadIdx.x];
        }
        sums[k * shape.n * shape.channels + row] = sum;
      }
    }
    __syncthreads();  // before the next sample's are written there
  }
}

template <typename Function>
struct ChannelElement {
  __device__ void operator()(int64_t i) const {
    const int64_t c = i % shape.channels;
    function(i, i / (shape.positions * shape.channels) * shape.channels + c, c);
  }

  ChannelShape shape;
  Function function;
};

/// What kernels/portable_op.h asks of a device, by kernels in a stream, which outlives it.
class CudaDevice {
 public:
  class Floats {
   public:
    float* floats() { return memory_->floats(); }

   private:
    friend class CudaDevice;
    std::unique_ptr<Memory> memory_;
  };

  explicit CudaDevice(CudaStream* stream) : stream_(stream) {}

  Status Grow(int64_t floats, Floats* memory) const {
    const size_t size_bytes = static_cast<size_t>(floats) * sizeof(float);
    if (memory->memory_ == nullptr || memory->memory_->size() < size_bytes) {
      PS_ASSIGN(
          memory->memory_, AllocateCudaMemory(stream_->device(), MemoryKind::kDevice, size_bytes));
    }
    return Status::Ok();
  }

  Status ReserveScratch(int64_t floats) const { return stream_->ReserveScratch(floats); }

  float* scratch() const { return stream_->scratch(); }

  template <typename Function>
  void ForEach(int64_t n, const Function& function) const {
    stream_->Note(kernels::ForEach(stream_->Enter(), n, function));
  }

  template <typename Function>
  void ForChannels(const ChannelShape& shape, const Function& function) const {
    ForEach(shape.count(), ChannelElement<Function>{shape, function});
  }

  template <int each, typename Function>
  void SumPositions(const ChannelShape& shape, const Function& function, float* sums) const {
    const dim3 grid(
        static_cast<unsigned>(DivideUp(shape.channels, 32)),
        static_cast<unsigned>(shape.n < kBlocksMax ? shape.n : kBlocksMax));
    stream_->Note(Launch(
        stream_->Enter(),
        grid,
        dim3(32, kPositionsBeside),
        &SumPositionsKernel<each, Function>,
        shape,
        function,
        sums));
  }

 private:
  CudaStream* stream_;
};

}  // namespace ps::kernels
