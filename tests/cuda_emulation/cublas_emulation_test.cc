#include <cublasLt.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cuda/backend.h"
#include "tests/cuda_emulation/runtime.h"

// What the emulated cuBLASLt refuses: faults that kernels/cuda/gemm could have.

namespace ps::kernels::test {
namespace {

/// A product of [2,3] and [3,2], as the emulation of cuBLASLt is asked for it.
class CublasEmulationTest : public testing::Test {
 protected:
  struct Product {
    int64_t ld_a = 2;
    int64_t ld_c = 2;
    uint64_t columns_of_a = 3;
    cudaDataType_t type_of_a = CUDA_R_32F;
    cudaDataType_t type_of_b = CUDA_R_32F;
    cudaDataType_t type_of_c = CUDA_R_32F;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    uint64_t workspace_bytes = 4096;        // that the library is told of
    uint64_t given_workspace_bytes = 4096;  // when it multiplies
    size_t offset = 0;                      // of a, in bytes
    size_t offset_of_c = 0;
    uint32_t alignment = 4;
    int64_t later_ld_a = 0;  // unless 0, of a when it multiplies
    uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  };

  /// What the call that fails says, or the last one.
  cublasStatus_t Multiply(const Product& p) {
    const std::unique_ptr<Backend> backend = MakeCudaBackend(0, GemmKind::kOwn).value();
    const std::unique_ptr<Memory> memory = backend->AllocateDevice(1024).value();
    const std::unique_ptr<Memory> workspace = backend->AllocateDevice(4096).value();
    std::fill_n(memory->floats(), 256, 1.0F);
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatmulPreference_t preference = nullptr;
    std::array<cublasLtMatrixLayout_t, 3> layouts{};
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const float one = 1;
    const float zero = 0;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    const auto then = [&](auto next) {
      status = status == CUBLAS_STATUS_SUCCESS ? next() : status;
    };
    then([&] { return cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F); });
    then([&] {
      return cublasLtMatmulDescSetAttribute(
          product, CUBLASLT_MATMUL_DESC_EPILOGUE, &p.epilogue, sizeof(p.epilogue));
    });
    then([&] {
      return cublasLtMatrixLayoutCreate(layouts.data(), p.type_of_a, 2, p.columns_of_a, p.ld_a);
    });
    then([&] { return cublasLtMatrixLayoutCreate(&layouts[1], p.type_of_b, 3, 2, 3); });
    then([&] { return cublasLtMatrixLayoutCreate(&layouts[2], p.type_of_c, 2, 2, p.ld_c); });
    then([&] { return cublasLtMatmulPreferenceCreate(&preference); });
    then([&] {
      return cublasLtMatmulPreferenceSetAttribute(
          preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p.workspace_bytes, 8);
    });
    then([&] {
      return cublasLtMatmulPreferenceSetAttribute(
          preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &p.reduction_schemes, 4);
    });
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      then([&] {
        return cublasLtMatmulPreferenceSetAttribute(preference, attribute, &p.alignment, 4);
      });
    }
    then([&] {
      return cublasLtMatmulAlgoGetHeuristic(
          nullptr,
          product,
          layouts[0],
          layouts[1],
          layouts[2],
          layouts[2],
          preference,
          1,
          &best,
          &found);
    });
    std::byte* const data = memory->data();
    if (p.later_ld_a != 0) {
      then([&] {
        cublasLtMatrixLayoutDestroy(layouts[0]);
        return cublasLtMatrixLayoutCreate(
            layouts.data(), p.type_of_a, 2, p.columns_of_a, p.later_ld_a);
      });
    }
    then([&] {
      return cublasLtMatmul(
          nullptr,
          product,
          &one,
          data + p.offset,
          layouts[0],
          data + 256,
          layouts[1],
          &zero,
          data + 512 + p.offset_of_c,
          layouts[2],
          data + 512 + p.offset_of_c,
          layouts[2],
          &best.algo,
          workspace->data(),
          p.given_workspace_bytes,
          stream);
    });
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    std::copy_n(memory->floats() + 128, results_.size(), results_.begin());
    for (cublasLtMatrixLayout_t layout : layouts) {
      cublasLtMatrixLayoutDestroy(layout);
    }
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(product);
    cudaStreamDestroy(stream);
    return status;
  }

  CublasEmulationTest() { cuda_emulation::SetCublasAlgorithms({{.workspace_bytes = 4096}}); }

  ~CublasEmulationTest() override {
    cuda_emulation::SetCublasAlgorithms({});
    cuda_emulation::TakeCublasProducts();
  }

  std::array<float, 4> results_{};
};

TEST_F(CublasEmulationTest, WhatTheLibraryRefusesIsRefused) {
  EXPECT_EQ(Multiply({}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(results_[0], 3);
  EXPECT_EQ(Multiply({.ld_a = 5}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Multiply({.ld_a = 1}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply({.ld_c = 1}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply({.columns_of_a = 4}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply({.columns_of_a = 0}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply({.type_of_b = CUDA_R_16BF}), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(Multiply({.type_of_c = CUDA_R_16BF}), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(Multiply({.epilogue = CUBLASLT_EPILOGUE_BIAS}), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CublasEmulationTest, APromiseThatIsNotKeptIsFound) {
  EXPECT_EQ(Multiply({.alignment = 16}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Multiply({.offset = 4, .alignment = 16}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply({.offset_of_c = 4, .alignment = 16}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply({.offset_of_c = 4}), CUBLAS_STATUS_SUCCESS);
}

TEST_F(CublasEmulationTest, AnAlgorithmIsForWhatItWasProposedFor) {
  EXPECT_EQ(Multiply({.later_ld_a = 5}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply({.given_workspace_bytes = 4095}), CUBLAS_STATUS_INVALID_VALUE);
  cuda_emulation::SetCublasAlgorithms({{.is_usable = false}});
  EXPECT_EQ(Multiply({}), CUBLAS_STATUS_NOT_SUPPORTED);
  cuda_emulation::SetCublasAlgorithms({{.is_refused = true}});
  EXPECT_EQ(Multiply({}), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(CublasEmulationTest, NothingIsProposedThatPromisesDoNotAllow) {
  cuda_emulation::SetCublasAlgorithms({{.alignment_bytes = 16}});
  EXPECT_EQ(Multiply({}), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(Multiply({.alignment = 16}), CUBLAS_STATUS_NOT_SUPPORTED) << "rows are 8 bytes apart";
  cuda_emulation::SetCublasAlgorithms({{.reduction_scheme = CUBLASLT_REDUCTION_SCHEME_INPLACE}});
  EXPECT_EQ(Multiply({}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(
      Multiply({.reduction_schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}),
      CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(CublasEmulationTest, ResultsMayBeInBf16WithGapsBetweenTheirColumns) {
  // The ones in memory are pairs of bf16: 0 and 1.
  const Product product{
      .ld_a = 2,
      .ld_c = 3,
      .type_of_a = CUDA_R_16BF,
      .type_of_b = CUDA_R_16BF,
      .type_of_c = CUDA_R_16BF};
  ASSERT_EQ(Multiply(product), CUBLAS_STATUS_SUCCESS);
  const auto* const values = reinterpret_cast<const uint16_t*>(results_.data());
  EXPECT_EQ(values[1], 0x3f80) << "1";
  EXPECT_EQ(values[4], 0x4000) << "2";
  EXPECT_EQ(values[2], 0) << "the gap is as it was";
  EXPECT_EQ(values[5], 0x3f80) << "this one, too";
}

TEST_F(CublasEmulationTest, EventsTellTheTimeOnlyIfTheyWereMadeToDoSo) {
  cudaEvent_t timed = nullptr;
  cudaEvent_t other = nullptr;
  cudaStream_t stream = nullptr;
  float milliseconds = 0;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&timed, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&other, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(timed, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(other, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, timed, timed), cudaErrorNotReady);
  ASSERT_EQ(cudaEventSynchronize(timed), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, timed, timed), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, timed, other), cudaErrorInvalidResourceHandle);
  cudaEventDestroy(timed);
  cudaEventDestroy(other);
  cudaStreamDestroy(stream);
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
}

}  // namespace
}  // namespace ps::kernels::test
