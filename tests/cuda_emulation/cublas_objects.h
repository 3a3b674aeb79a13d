#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>

// What stands behind the handles of the emulated cuBLASLt. Private to cublas.cc.

namespace ps::cuda_emulation {

inline bool IsAligned(const void* memory, uint64_t alignment) {
  return reinterpret_cast<uintptr_t>(memory) % alignment == 0;
}

inline uint64_t BytesOf(cudaDataType_t type) {
  return type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

/// Rounded to the nearest, ties to even.
inline uint16_t ToBf16(float value) {
  if (value != value) {
    return 0x7fff;
  }
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

inline float ValueAt(const void* data, cudaDataType_t type, int64_t i) {
  return type == CUDA_R_32F
             ? static_cast<const float*>(data)[i]
             : std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(data)[i]} << 16U);
}

}  // namespace ps::cuda_emulation

struct cublasLtContext {};

struct CublasProduct {
  cublasOperation_t a = CUBLAS_OP_N;
  cublasOperation_t b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;  // that of the result

  bool has_bias() const { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
};

struct CublasLayout {
  /// What is at [row, column] of the matrix, transposed or not.
  float At(const void* data, cublasOperation_t operation, int64_t row, int64_t column) const {
    return ps::cuda_emulation::ValueAt(
        data, type, operation == CUBLAS_OP_N ? column * ld + row : row * ld + column);
  }

  int64_t Rows(cublasOperation_t operation) const { return operation == CUBLAS_OP_N ? rows : cols; }

  int64_t Columns(cublasOperation_t operation) const {
    return operation == CUBLAS_OP_N ? cols : rows;
  }

  cudaDataType_t type;
  int64_t rows;
  int64_t cols;
  int64_t ld;
};

struct CublasPreference {
  uint64_t workspace_bytes = 0;
  uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<uint32_t, 4> alignments = {256, 256, 256, 256};  // promised of a, b, c and d
};

namespace ps::cuda_emulation {

/// What is in the bytes of a cublasLtMatmulAlgo_t.
struct Algorithm {
  std::array<uint16_t, 4> alignments;
  uint64_t workspace_bytes;
  uint64_t layouts;  // SumOf those that it was proposed for
  double run_ms;
  int32_t reduction_scheme;
  int16_t place;
  bool is_usable;
  bool is_refused;
};

static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

inline Algorithm Unpack(const cublasLtMatmulAlgo_t& packed) {
  Algorithm algorithm{};
  std::memcpy(&algorithm, packed.data, sizeof(algorithm));
  return algorithm;
}

/// Tells apart what an algorithm is proposed for.
inline uint64_t SumOf(
    const CublasProduct& product, std::initializer_list<const CublasLayout*> layouts) {
  uint64_t sum = 14695981039346656037U;
  const auto add = [&](auto value) { sum = (sum ^ static_cast<uint64_t>(value)) * 1099511628211U; };
  add(product.a);
  add(product.b);
  add(product.epilogue);
  add(product.bias_type);
  for (const CublasLayout* layout : layouts) {
    add(layout->type);
    add(layout->rows);
    add(layout->cols);
    add(layout->ld);
  }
  return sum;
}

}  // namespace ps::cuda_emulation
