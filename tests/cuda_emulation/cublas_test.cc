#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/gemm/best_product.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/kernels/op_runner.h"

// Ops of kernels/cuda by cuBLASLt.

namespace ps::kernels::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kProductSeed = 29;
constexpr double kOtherOrder = 1e-10;  // of the same factors' sums

bool IsProduct(const OpCase& c) {
  const auto* const conv = std::get_if<Conv2dOptions>(&c.spec);
  return conv == nullptr ||
         (conv->kernel == 1 && conv->stride == 1 && conv->padding == 0 && conv->groups == 1);
}

std::vector<OpCase> ProductCases() {
  std::vector<OpCase> cases = OpCasesOf("linear");
  for (const OpCase& c : OpCasesOf("conv2d")) {
    if (IsProduct(c)) {
      cases.push_back(c);
    }
  }
  return cases;
}

/// On a device that multiplies bf16.
class CublasTest : public testing::Test {
 protected:
  CublasTest() { cuda_emulation::SetComputeCapability(8, 0); }

  ~CublasTest() override {
    cuda_emulation::SetComputeCapability(7, 5);
    cuda_emulation::SetCublasAlgorithms({});
    cuda_emulation::TakeCublasProducts();
  }

  static std::unique_ptr<Backend> Make(GemmKind gemm) { return MakeCudaBackend(0, gemm).value(); }

  static void ExpectNear(
      const OpCase& c, Backend* here, Backend* there, double nmse_max, bool is_aligned = false) {
    OpRunner actual(c, kProductSeed, here, is_aligned ? Offsets{0, 0, 0, 0} : Offsets{});
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
  const auto cpu = MakeCpuBackend();
  for (const GemmKind kind : {GemmKind::kCublas, GemmKind::kCublasTimed}) {
    const auto cuda = Make(kind);
    cuda_emulation::TakeCublasProducts();
    for (const OpCase& c : ProductCases()) {
      for (const bool is_aligned : {false, true}) {
        ExpectNear(c, cuda.get(), cpu.get(), c.gradient_nmse_max, is_aligned);
        EXPECT_EQ(cuda_emulation::TakeCublasProducts().empty(), c.n == 0) << c;
      }
    }
  }
}

TEST_F(CublasTest, BiasAndReluAtItsEndAreThoseOfOurOwnKernel) {
  const auto cuda = Make(GemmKind::kCublas);
  const auto own = Make(GemmKind::kOwn);
  for (OpCase c : ProductCases()) {
    std::visit(
        [](auto& options) {
          if constexpr (requires { options.activation; }) {
            options.activation = Activation::kRelu;
          }
        },
        c.spec);
    ExpectNear(c, cuda.get(), own.get(), kOtherOrder);
  }
}

TEST_F(CublasTest, ConvolutionsThatAreNoProductsAreOurOwnKernels) {
  const auto cuda = Make(GemmKind::kCublas);
  for (const OpCase& c : OpCasesOf("conv2d")) {
    if (!IsProduct(c)) {
      OpRunner runner(c, kProductSeed, cuda.get());
      runner.Prepare(true);
      runner.Forward(true);
      runner.Backward();
      EXPECT_THAT(cuda_emulation::TakeCublasProducts(), IsEmpty()) << c;
    }
  }
}

/// A gradient is a factor of two products, and its copy in bf16 of both.
TEST_F(CublasTest, AGradientIsRoundedOnce) {
  const auto cuda = Make(GemmKind::kCublas);
  for (const OpCase& c : OpCasesOf("linear")) {
    const bool has_bias = c.parameter_sizes.size() > 1;
    if (c.precision == Precision::kBf16 && c.n > 0 && !has_bias) {
      OpRunner runner(c, kProductSeed, cuda.get());
      runner.Prepare(true);
      runner.Forward(true);
      const int launches = cuda_emulation::LaunchCount();
      runner.Backward();
      EXPECT_EQ(cuda_emulation::LaunchCount(), launches + 5) << "two products of three factors";
    }
  }
}

TEST_F(CublasTest, WhatTheLibraryRefusesIsToldInWords) {
  cuda_emulation::SetCublasAlgorithms({{.is_refused = true}});
  const auto cuda = Make(GemmKind::kCublas);
  const std::unique_ptr<Stream> stream = cuda->MakeStream().value();
  const auto op = stream->MakeOp(LinearOptions{31, 10, false}).value();
  const auto memory = cuda->AllocateDevice(4096).value();
  const std::span<const float> weights[] = {{memory->floats(), 310}};
  ASSERT_TRUE(op->Prepare(5, false).ok());
  op->Forward(
      {.n = 5, .x = memory->floats() + 512, .y = memory->floats() + 768, .params = weights});
  const Status status = stream->Synchronize();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(
      status.message(),
      "cuBLASLt: a product of [5, 31] and [31, 10] in f32: not supported (status 15)");
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");

  cuda_emulation::SetCublasAlgorithms({{.is_usable = false}});
  const Status unprepared = op->Prepare(6, false);
  EXPECT_EQ(unprepared.code(), StatusCode::kUnsupported);
  EXPECT_THAT(
      std::string(unprepared.message()),
      HasSubstr("a product of [6, 31] and [31, 10] in f32: cuBLASLt: choosing how to multiply"));
}

/// Streams time for themselves, and may forget what they have timed; what was taken stays.
TEST_F(CublasTest, AllStreamsOfADeviceGiveTheSameBitsWhateverTheyTime) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kDepth = 67;
  constexpr int kSplit = 2;  // sums in two halves
  const auto cuda = Make(GemmKind::kCublasTimed);
  const auto memory = cuda->AllocateDevice(4096).value();
  const std::vector<float> values = NormalValues(512, kProductSeed);
  std::ranges::copy(values, memory->floats());
  const std::span<const float> weights[] = {{memory->floats() + 256, kDepth}};
  std::vector<std::vector<float>> results;
  std::vector<std::vector<int>> algorithms;
  std::vector<bool> timed;
  const auto run = [&](Backend* backend) {
    const std::unique_ptr<Stream> stream = backend->MakeStream().value();
    const auto op = stream->MakeOp(LinearOptions{kDepth, 1, false}).value();
    EXPECT_TRUE(op->Prepare(kRows, false).ok());
    timed.push_back(!cuda_emulation::TakeCublasProducts().empty());
    float* const y = memory->floats() + 512;
    op->Forward({.n = kRows, .x = memory->floats(), .y = y, .params = weights});
    EXPECT_TRUE(stream->Synchronize().ok());
    results.emplace_back(y, y + kRows);
    algorithms.push_back(cuda_emulation::TakeCublasProducts());
  };
  cuda_emulation::SetCublasAlgorithms({{.run_ms = 2}, {.reduction_scheme = kSplit, .run_ms = 1}});
  run(cuda.get());
  cuda_emulation::SetCublasAlgorithms({{.run_ms = 1}, {.reduction_scheme = kSplit, .run_ms = 2}});
  run(cuda.get());
  const auto reopened = Make(GemmKind::kCublasTimed);
  run(reopened.get());
  EXPECT_THAT(timed, ElementsAre(true, false, true));
  EXPECT_THAT(algorithms, ElementsAre(ElementsAre(1), ElementsAre(1), ElementsAre(0)));
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0], results[2]) << "which algorithm runs shows in these bits";
}

/// The memory of a trial comes and goes, and no recording has it.
TEST_F(CublasTest, ARecordingOutlivesATrial) {
  const auto cuda = Make(GemmKind::kCublasTimed);
  const std::unique_ptr<Stream> stream = cuda->MakeStream().value();
  const auto op = stream->MakeOp(LinearOptions{8, 8, false}).value();
  const auto memory = cuda->AllocateDevice(4096).value();
  const std::span<const float> weights[] = {{memory->floats() + 256, 64}};
  ASSERT_TRUE(op->Prepare(4, false).ok());
  ASSERT_TRUE(stream->BeginRecording());
  op->Forward({.n = 4, .x = memory->floats(), .y = memory->floats() + 512, .params = weights});
  const auto recording = stream->EndRecording();
  cuda_emulation::TakeCublasProducts();
  ASSERT_TRUE(op->Prepare(3, false).ok());
  EXPECT_GT(cuda_emulation::TakeCublasProducts().size(), 1U) << "it was timed";
  EXPECT_TRUE(stream->CanReplay(*recording));
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");

  ASSERT_TRUE(stream->BeginRecording());
  EXPECT_FALSE(op->Prepare(2, false).ok());
  EXPECT_EQ(cuda_emulation::TakeFailure(), "memory was taken while work is captured");
  stream->EndRecording();
}

TEST_F(CublasTest, TheYardstickIsTheFastestProductAndNothingElse) {
  constexpr int64_t kEdge = 16;
  cuda_emulation::SetCublasAlgorithms({{.run_ms = 2}, {.alignment_bytes = 16, .run_ms = 1}});
  const auto cuda = Make(GemmKind::kCublasTimed);
  const std::unique_ptr<Stream> stream = cuda->MakeStream().value();
  const auto product = MakeBestProduct(cuda.get(), stream.get(), kEdge).value();
  cuda_emulation::TakeCublasProducts();
  const int launches = cuda_emulation::LaunchCount();
  product->Run();
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(cuda_emulation::LaunchCount(), launches + 1);
  EXPECT_THAT(cuda_emulation::TakeCublasProducts(), ElementsAre(1));
  const auto own = Make(GemmKind::kOwn);
  const std::unique_ptr<Stream> other = own->MakeStream().value();
  EXPECT_EQ(
      MakeBestProduct(own.get(), other.get(), kEdge).status().code(), StatusCode::kUnsupported);
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

}  // namespace
}  // namespace ps::kernels::test
