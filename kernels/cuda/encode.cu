// The encodings of ps/codec with its bytes: the files there say what each is. Compiled without
// contraction to fused multiply-add, as they are.

#include <cstddef>
#include <limits>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

constexpr uint32_t kMagnitudeMask = 0x7fffffffU;
constexpr uint32_t kInfinityBits = 0x7f800000U;
constexpr uint32_t kNotFiniteBits = 0x7fc00000U;
constexpr float kLeastMagnitude = 0x1p-100F;
constexpr float kRounder = 0x1.8p+23F;
constexpr int kWarps = kThreads / 32;

__device__ inline float SumAt(const float* values, const float* residual, int64_t i) {
  return residual == nullptr ? values[i] : values[i] + residual[i];
}

__device__ inline uint32_t MagnitudeOf(float x) {
  return __float_as_uint(x) & kMagnitudeMask;
}

__device__ inline uint32_t WarpMax(uint32_t value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(kAllLanes, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

struct RoundValue {
  __device__ void operator()(int64_t i) const {
    const float sum = SumAt(values, residual, i);
    const uint16_t rounded = ToBf16(sum);
    out[i] = rounded;
    const uint32_t bits = uint32_t{rounded} << 16U;
    if (residual != nullptr && (bits & kInfinityBits) != kInfinityBits) {
      residual[i] = sum - __uint_as_float(bits);
    }
  }

  const float* values;
  float* residual;
  uint16_t* out;
};

struct KeepValue {
  __device__ void operator()(int64_t i) const {
    const float sum = SumAt(values, residual, i);
    out[i] = sum;
    if (residual != nullptr && MagnitudeOf(sum) < kInfinityBits) {
      residual[i] = 0;
    }
  }

  const float* values;
  float* residual;
  float* out;
};

/// What int8 makes of a block: a byte a value.
struct Int8Block {
  static constexpr int kBlock = 256;
  static constexpr float kLevels = 127;
  static constexpr float kScaleMax = 0x1.020406p+121F;

  static __device__ int64_t BytesOf(int count) { return static_cast<int64_t>(count); }

  /// The code, and in *decoded what becomes of it.
  static __device__ uint8_t CodeOf(float sum, float scale, float inverse, float* decoded) {
    const float shifted = sum * inverse + kRounder;
    *decoded = (shifted - kRounder) * scale;
    return static_cast<uint8_t>(__float_as_uint(shifted));
  }

  /// Byte i of a block of `count` codes.
  static __device__ uint8_t ByteAt(const uint8_t* codes, int /*count*/, int i) { return codes[i]; }
};

/// What int4 makes of a block: half a byte a value.
struct Int4Block {
  static constexpr int kBlock = 128;
  static constexpr float kLevels = 6;
  static constexpr float kScaleMax = 0x1.555554p+125F;

  static __device__ int64_t BytesOf(int count) { return (static_cast<int64_t>(count) + 1) / 2; }

  static __device__ uint8_t CodeOf(float sum, float scale, float inverse, float* decoded) {
    const uint32_t bits = __float_as_uint(sum);
    const float x = __uint_as_float(bits & kMagnitudeMask) * inverse;
    const int magnitude = (x > 0.25F ? 1 : 0) + (x >= 0.75F ? 1 : 0) + (x > 1.25F ? 1 : 0) +
                          (x >= 1.75F ? 1 : 0) + (x > 2.5F ? 1 : 0) + (x >= 3.5F ? 1 : 0) +
                          (x > 5.0F ? 1 : 0);
    const int twice =
        magnitude + (magnitude > 4 ? magnitude - 4 : 0) + (magnitude > 6 ? 2 * (magnitude - 6) : 0);
    const float value = static_cast<float>(twice) * (scale * 0.5F);
    const auto sign = static_cast<uint8_t>((bits >> 28U) & 8U);
    *decoded = sign != 0 ? -value : value;
    return static_cast<uint8_t>(magnitude | sign);
  }

  static __device__ uint8_t ByteAt(const uint8_t* codes, int count, int i) {
    const int half = (count + 1) / 2;
    const int upper = half + i < count ? codes[half + i] : 0;
    return static_cast<uint8_t>(codes[i] | upper << 4);
  }
};

__device__ inline void StoreFloat(float value, uint8_t* out) {
  const uint32_t bits = __float_as_uint(value);
  for (int i = 0; i < 4; ++i) {
    out[i] = static_cast<uint8_t>(bits >> (8 * i));
  }
}

/// A warp a block of values with one scale.
template <typename Block>
__global__ void EncodeBlocksKernel(const float* values, float* residual, int64_t n, uint8_t* out) {
  constexpr int kEach = Block::kBlock / 32;
  __shared__ uint8_t codes_of[kWarps][Block::kBlock];
  const int lane = static_cast<int>(threadIdx.x % 32);
  uint8_t* const codes = codes_of[threadIdx.x / 32];
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t block = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
       block * Block::kBlock < n;
       block += stride) {
    const int64_t begin = block * Block::kBlock;
    const int count = n - begin < Block::kBlock ? static_cast<int>(n - begin) : Block::kBlock;
    uint8_t* const to = out + block * (4 + Block::BytesOf(Block::kBlock));
    float sums[kEach];
    uint32_t largest = 0;
    PS_UNROLL
    for (int k = 0; k < kEach; ++k) {
      const int i = lane + 32 * k;
      sums[k] = i < count ? SumAt(values, residual, begin + i) : 0.0F;
      const uint32_t magnitude = MagnitudeOf(sums[k]);
      largest = magnitude > largest ? magnitude : largest;
    }
    largest = WarpMax(largest);
    const bool is_finite = largest < kInfinityBits;
    if (count == 1) {
      if (lane == 0) {
        StoreFloat(sums[0], to);
        if (residual != nullptr && is_finite) {
          residual[begin] = 0;
        }
      }
      continue;
    }
    float scale = is_finite ? 0.0F : __uint_as_float(kNotFiniteBits);
    float inverse = 0;
    const float most = __uint_as_float(largest);
    if (is_finite && most >= kLeastMagnitude) {
      const float wanted = most / Block::kLevels;
      scale = wanted < Block::kScaleMax ? wanted : Block::kScaleMax;
      inverse = Block::kLevels / most;
    }
    PS_UNROLL
    for (int k = 0; k < kEach; ++k) {
      const int i = lane + 32 * k;
      float decoded = 0;
      uint8_t code = 0;
      if (is_finite) {
        code = Block::CodeOf(sums[k], scale, inverse, &decoded);
      }
      codes[i] = code;
      if (residual != nullptr && is_finite && i < count) {
        residual[begin + i] = sums[k] - decoded;
      }
    }
    __syncwarp();
    if (lane == 0) {
      StoreFloat(scale, to);
    }
    const int bytes = static_cast<int>(Block::BytesOf(count));
    for (int i = lane; i < bytes; i += 32) {
      to[4 + i] = Block::ByteAt(codes, count, i);
    }
    __syncwarp();  // the next block's codes come where these were
  }
}

template <typename Block>
cudaError_t EncodeBlocks(cudaStream_t stream, const EncodeArgs& args) {
  const int64_t blocks = DivideUp(DivideUp(args.n, Block::kBlock), kWarps);
  return Launch(
      stream,
      dim3(static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax)),
      dim3(kThreads),
      &EncodeBlocksKernel<Block>,
      args.values,
      args.residual,
      args.n,
      reinterpret_cast<uint8_t*>(args.out));
}

constexpr int kTopkBlock = 4096;
constexpr int kTopkEach = kTopkBlock / static_cast<int>(kThreads);

/// How many of a block's values are sent.
__host__ __device__ inline int KeptOf(uint32_t share, int64_t count) {
  constexpr int64_t kUnit = codec::Encoding::kShareUnit;
  return static_cast<int>((count * share + kUnit - 1) / kUnit);
}

/// The sum over the block, in every thread. All threads call it.
__device__ inline int SumForAll(int value) {
  __shared__ int sum;
  const int whole = BlockSum<kThreads>(value);
  if (threadIdx.x == 0) {
    sum = whole;
  }
  __syncthreads();
  return sum;
}

/// How many values of a block there are.
struct Counts {
  int larger;
  int equal;
};

/// What the threads before this one have together. All threads call it.
__device__ inline Counts CountsBefore(Counts own) {
  __shared__ Counts counts[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // an earlier call has been read
  counts[thread] = own;
  __syncthreads();
  for (int distance = 1; distance < static_cast<int>(kThreads); distance *= 2) {
    Counts other{0, 0};
    if (thread >= distance) {
      other = counts[thread - distance];
    }
    __syncthreads();
    counts[thread].larger += other.larger;
    counts[thread].equal += other.equal;
    __syncthreads();
  }
  return {counts[thread].larger - own.larger, counts[thread].equal - own.equal};
}

/// A block of threads a block of values, each thread values that follow each other.
__global__ void EncodeTopkKernel(
    const float* values, float* residual, int64_t n, uint32_t share, uint16_t* out) {
  __shared__ uint16_t magnitudes[kTopkBlock];
  const int first = static_cast<int>(threadIdx.x) * kTopkEach;
  const int kept_of_whole = KeptOf(share, kTopkBlock);
  for (int64_t block = blockIdx.x; block * kTopkBlock < n; block += gridDim.x) {
    const int64_t begin = block * kTopkBlock;
    const int count = n - begin < kTopkBlock ? static_cast<int>(n - begin) : kTopkBlock;
    const int kept = KeptOf(share, count);
    uint16_t* const places = out + block * 2 * kept_of_whole;
    uint16_t* const sent = places + kept;
    __syncthreads();  // of the block before all has been read
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(kThreads)) {
      magnitudes[i] = ToBf16(SumAt(values, residual, begin + i)) & 0x7fffU;
    }
    __syncthreads();
    // The largest magnitude that at least `kept` of the values have or exceed, bit by bit.
    uint16_t least = 0;
    for (uint32_t bit = 0x4000; bit != 0; bit >>= 1U) {
      const auto tried = static_cast<uint16_t>(least | bit);
      int found = 0;
      for (int i = first; i < first + kTopkEach && i < count; ++i) {
        found += magnitudes[i] >= tried ? 1 : 0;
      }
      least = SumForAll(found) >= kept ? tried : least;
    }
    Counts own{0, 0};
    for (int i = first; i < first + kTopkEach && i < count; ++i) {
      own.larger += magnitudes[i] > least ? 1 : 0;
      own.equal += magnitudes[i] == least ? 1 : 0;
    }
    const int equal_max = kept - SumForAll(own.larger);
    const Counts before = CountsBefore(own);
    int equal = before.equal;
    int place = before.larger + (equal < equal_max ? equal : equal_max);
    int not_finite = 0;
    for (int i = first; i < first + kTopkEach && i < count; ++i) {
      not_finite += magnitudes[i] >= 0x7f80 ? 1 : 0;
    }
    const bool keeps = residual != nullptr && SumForAll(not_finite) == 0;
    for (int i = first; i < first + kTopkEach && i < count; ++i) {
      const float sum = SumAt(values, residual, begin + i);
      const bool is_equal = magnitudes[i] == least;
      const bool is_taken = magnitudes[i] > least || (is_equal && equal < equal_max);
      equal += is_equal ? 1 : 0;
      float rest = sum;
      if (is_taken) {
        const uint16_t rounded = ToBf16(sum);
        places[place] = static_cast<uint16_t>(i);
        sent[place] = rounded;
        rest = sum - __uint_as_float(uint32_t{rounded} << 16U);
        ++place;
      }
      if (keeps) {
        residual[begin + i] = rest;
      }
    }
  }
}

cudaError_t EncodeTopk(cudaStream_t stream, const EncodeArgs& args) {
  const int64_t blocks = DivideUp(args.n, kTopkBlock);
  return Launch(
      stream,
      dim3(static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax)),
      dim3(kThreads),
      &EncodeTopkKernel,
      args.values,
      args.residual,
      args.n,
      args.encoding.share,
      reinterpret_cast<uint16_t*>(args.out));
}

}  // namespace

cudaError_t EncodeValues(cudaStream_t stream, const EncodeArgs& args) {
  switch (args.encoding.kind) {
    case codec::EncodingKind::kF32:
      return ForEach(
          stream,
          args.n,
          KeepValue{args.values, args.residual, reinterpret_cast<float*>(args.out)});
    case codec::EncodingKind::kBf16:
      return ForEach(
          stream,
          args.n,
          RoundValue{args.values, args.residual, reinterpret_cast<uint16_t*>(args.out)});
    case codec::EncodingKind::kInt8:
      return EncodeBlocks<Int8Block>(stream, args);
    case codec::EncodingKind::kInt4:
      return EncodeBlocks<Int4Block>(stream, args);
    case codec::EncodingKind::kTopk:
      return EncodeTopk(stream, args);
    case codec::EncodingKind::kNothing:
      break;
  }
  return cudaSuccess;
}

}  // namespace ps::kernels
