#include <cublasLt.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cuda/backend.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/kernels/op_runner.h"

// What kernels/cuda/cublas_gemm.cc asks of cuBLASLt.

namespace ps::kernels::test {
namespace {

constexpr uint64_t kProductSeed = 29;
constexpr double kOtherOrder = 1e-10;  // of the same factors' sums

/// On a device that multiplies bf16.
class CublasTest : public testing::Test {
 protected:
  CublasTest() { cuda_emulation::SetComputeCapability(8, 0); }

  ~CublasTest() override { cuda_emulation::SetComputeCapability(7, 5); }

  static std::unique_ptr<Backend> Make(GemmKind gemm) { return MakeCudaBackend(0, gemm).value(); }

  static void ExpectNear(const OpCase& c, Backend* here, Backend* there, double nmse_max) {
    OpRunner actual(c, kProductSeed, here);
    OpRunner expected(c, kProductSeed, there);
    for (OpRunner* runner : {&actual, &expected}) {
      runner->Prepare(true);
      runner->Forward(true);
      runner->Backward();
    }
    EXPECT_LE(NormalisedError(actual.y, ToDouble(expected.y)), nmse_max) << c << " y";
    EXPECT_LE(NormalisedError(actual.dx, ToDouble(expected.dx)), nmse_max) << c << " dx";
    for (size_t i = 0; i < actual.grads.size(); ++i) {
      EXPECT_LE(NormalisedError(actual.grads[i], ToDouble(expected.grads[i])), nmse_max)
          << c << " parameter " << i;
    }
    EXPECT_EQ(cuda_emulation::TakeFailure(), "") << c;
  }
};

TEST_F(CublasTest, ProductsAreThoseOfTheCpu) {
  const auto cuda = Make(GemmKind::kCublas);
  const auto cpu = MakeCpuBackend();
  const int launches = cuda_emulation::LaunchCount();
  for (const OpCase& c : OpCasesOf("linear")) {
    ExpectNear(c, cuda.get(), cpu.get(), c.gradient_nmse_max);
  }
  EXPECT_GT(cuda_emulation::LaunchCount(), launches);
}

TEST_F(CublasTest, BiasAndReluAtItsEndAreThoseOfOurOwnKernel) {
  const auto cuda = Make(GemmKind::kCublas);
  const auto own = Make(GemmKind::kOwn);
  for (OpCase c : OpCasesOf("linear")) {
    std::get<LinearOptions>(c.spec).activation = Activation::kRelu;
    ExpectNear(c, cuda.get(), own.get(), kOtherOrder);
  }
}

// Minibatches follow the fleet: a worker may see many sizes.
TEST_F(CublasTest, ProductsOfASizeStayPreparedWhateverSizesCameBefore) {
  const auto cuda = Make(GemmKind::kCublas);
  const std::unique_ptr<Stream> stream = cuda->MakeStream().value();
  std::vector<std::unique_ptr<Op>> ops;
  for (const int64_t width : {1, 2}) {
    const LinearOptions options{.in_features = width, .out_features = 1, .bias = false};
    ops.push_back(stream->MakeOp(options).value());
  }
  const auto memory = cuda->AllocateDevice(4096).value();
  const std::span<const float> weights[] = {{memory->floats() + 768, 2}};
  for (int64_t n = 300; n > 0; --n) {
    for (const auto& op : ops) {
      ASSERT_TRUE(op->Prepare(n, false).ok());
    }
    if (n < 5) {
      for (const auto& op : ops) {
        op->Forward(
            {.n = n, .x = memory->floats(), .y = memory->floats() + 512, .params = weights});
      }
    }
  }
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
}

TEST_F(CublasTest, ADeviceWithoutBf16MultipliesItByOurOwnKernel) {
  cuda_emulation::SetComputeCapability(7, 5);
  const auto cuda = Make(GemmKind::kCublas);
  const auto own = Make(GemmKind::kOwn);
  for (const OpCase& c : OpCasesOf("linear")) {
    if (c.precision == Precision::kBf16) {
      ExpectNear(c, cuda.get(), own.get(), kOtherOrder);
    }
  }
}

/// A product of [2,3] and [3,2], as the emulation of cuBLASLt is asked for it.
class CublasEmulationTest : public testing::Test {
 protected:
  struct Product {
    int64_t ld_a = 2;
    uint64_t columns_of_a = 3;
    cudaDataType_t type_of_b = CUDA_R_32F;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    uint64_t workspace_bytes = 4096;
    size_t offset = 0;  // of a, in bytes
    uint32_t alignment = 4;
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
      return cublasLtMatrixLayoutCreate(layouts.data(), CUDA_R_32F, 2, p.columns_of_a, p.ld_a);
    });
    then([&] { return cublasLtMatrixLayoutCreate(&layouts[1], p.type_of_b, 3, 2, 3); });
    then([&] { return cublasLtMatrixLayoutCreate(&layouts[2], CUDA_R_32F, 2, 2, 2); });
    then([&] { return cublasLtMatmulPreferenceCreate(&preference); });
    then([&] {
      return cublasLtMatmulPreferenceSetAttribute(
          preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p.workspace_bytes, 8);
    });
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES}) {
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
          data + 512,
          layouts[2],
          data + 512,
          layouts[2],
          &best.algo,
          workspace->data(),
          p.workspace_bytes,
          stream);
    });
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    result_ = memory->floats()[128];
    for (cublasLtMatrixLayout_t layout : layouts) {
      cublasLtMatrixLayoutDestroy(layout);
    }
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(product);
    cudaStreamDestroy(stream);
    return status;
  }

  float result_ = 0;
};

TEST_F(CublasEmulationTest, WhatTheLibraryRefusesIsRefused) {
  EXPECT_EQ(Multiply({}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(result_, 3);
  EXPECT_EQ(Multiply({.ld_a = 5}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Multiply({.ld_a = 1}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply({.columns_of_a = 4}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply({.columns_of_a = 0}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply({.type_of_b = CUDA_R_16BF}), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(Multiply({.epilogue = CUBLASLT_EPILOGUE_BIAS}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply({.offset = 4, .alignment = 16}), CUBLAS_STATUS_INVALID_VALUE);
}

}  // namespace
}  // namespace ps::kernels::test
