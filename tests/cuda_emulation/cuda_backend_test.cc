#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "tests/cuda_emulation/runtime.h"
#include "tests/cuda_emulation/sanitizer.h"
#include "tests/kernels/op_runner.h"

// What only the emulation can show of kernels/cuda: any order of threads, failures of the device.

namespace ps::kernels::test {
namespace {

using cuda_emulation::SetThreadOrder;
using cuda_emulation::ThreadOrder;

std::unique_ptr<Backend> MakeOwn() {
  return MakeCudaBackend(0, GemmKind::kOwn).value();
}

TEST(CudaBackendTest, HeadsThatAreTooWideAreRefused) {
  const std::unique_ptr<Backend> backend = MakeOwn();
  const std::unique_ptr<Stream> stream = backend->MakeStream().value();
  EXPECT_TRUE(stream->MakeOp(AttentionOptions{.length = 2, .width = 256, .heads = 2}).ok());
  const auto wide = stream->MakeOp(AttentionOptions{.length = 2, .width = 129, .heads = 1});
  ASSERT_FALSE(wide.ok());
  EXPECT_EQ(wide.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(
      wide.status().message(),
      "the CUDA kernels take attention heads of up to 128 features, and this one has 129; take "
      "more heads, or device cpu");
}

TEST(CudaBackendTest, AConvolutionOfTooManyPixelsIsRefused) {
  const std::unique_ptr<Backend> backend = MakeOwn();
  const std::unique_ptr<Stream> stream = backend->MakeStream().value();
  const auto op = stream->MakeOp(Conv2dOptions{3, 224, 224, 64, 7, 2, 3}).value();
  const Status status = op->Prepare(40'000, false);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(
      status.message(),
      "a convolution on a CUDA device takes up to 1073741824 pixels of a minibatch, and values of "
      "a "
      "picture, and this one has 2007040000; make train.minibatch smaller");
}

TEST(CudaBackendTest, OpsGiveTheSameBitsInEitherOrderOfThreads) {
  for (const std::string& kind : AllOpKinds()) {
    for (const OpCase& c : OpCasesOf(kind)) {
      OpRunner ascending(c, 5);
      OpRunner descending(c, 5);
      for (OpRunner* runner : {&ascending, &descending}) {
        SetThreadOrder(runner == &ascending ? ThreadOrder::kAscending : ThreadOrder::kDescending);
        runner->Prepare(true);
        runner->Forward(true);
        runner->Backward();
      }
      SetThreadOrder(ThreadOrder::kAscending);
      EXPECT_EQ(ascending.y, descending.y) << c;
      EXPECT_EQ(ascending.dx, descending.dx) << c;
      EXPECT_EQ(ascending.grads, descending.grads) << c;
    }
  }
}

__global__ void SumTwice(float* out) {
  const float first = BlockSum<64>(static_cast<float>(threadIdx.x));
  const float second = BlockSum<64>(2 * static_cast<float>(threadIdx.x));
  if (threadIdx.x == 0) {
    out[0] = first;
    out[1] = second;
  }
}

TEST(CudaBackendTest, ABlockAddsUpTwiceInARow) {
  for (const ThreadOrder order : {ThreadOrder::kAscending, ThreadOrder::kDescending}) {
    std::vector<float> sums(2);
    EXPECT_EQ(cuda_emulation::RunGrid(1, 64, order, [&] { SumTwice(sums.data()); }), std::string());
    EXPECT_EQ(sums, (std::vector<float>{2016, 4032}));
  }
}

TEST(CudaBackendTest, MoreElementsThanThreadsAreAllReached) {
  const std::unique_ptr<Backend> backend = MakeOwn();
  const std::unique_ptr<Stream> stream = backend->MakeStream().value();
  constexpr int64_t kCount = kBlocksMax * kThreads + 1;
  const DeviceFloats device(backend.get(), kCount, 0);
  stream->Fill(2, device.data(), kCount);
  std::vector<float> values(kCount);
  device.Download(stream.get(), values);
  EXPECT_EQ(values, std::vector<float>(kCount, 2));
}

TEST(CudaBackendTest, WorkIsDoneWhenSomeoneWaitsAndNotBefore) {
  const std::unique_ptr<Backend> backend = MakeOwn();
  const std::unique_ptr<Stream> stream = backend->MakeStream().value();
  const std::unique_ptr<Event> event = backend->MakeEvent().value();
  const std::unique_ptr<Memory> device = backend->AllocateDevice(sizeof(float)).value();
  const std::unique_ptr<Memory> host = backend->AllocatePinned(sizeof(float)).value();
  *host->floats() = 1;
  stream->Fill(2, device->floats(), 1);
  stream->Download(device->data(), host->data(), sizeof(float));
  stream->Record(event.get());
  EXPECT_FALSE(event->IsReached());
  EXPECT_EQ(*host->floats(), 1);
  EXPECT_TRUE(event->Wait().ok());
  EXPECT_EQ(*host->floats(), 2);
}

TEST(CudaBackendTest, AFaultOfTheDeviceIsKeptUntilSomeoneWaits) {
  const std::unique_ptr<Backend> backend = MakeOwn();
  const std::unique_ptr<Stream> stream = backend->MakeStream().value();
  float on_the_stack = 0;
  stream->Upload(&on_the_stack, &on_the_stack, sizeof(float));
  EXPECT_NE(cuda_emulation::TakeFailure(), "");
  for (int i = 0; i < 2; ++i) {
    const Status status = stream->Synchronize();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_NE(status.message().find("unspecified launch failure"), std::string::npos) << status;
  }
}

TEST(CudaBackendTest, NothingButWorkIsRecorded) {
  const std::unique_ptr<Backend> backend = MakeOwn();
  const std::unique_ptr<Event> event = backend->MakeEvent().value();
  const std::unique_ptr<Memory> device = backend->AllocateDevice(sizeof(float)).value();
  const std::unique_ptr<Memory> host = backend->AllocatePinned(sizeof(float)).value();

  const struct {
    const char* failure;
    std::function<void(Stream*)> call;
  } cases[] = {
      {"memory was taken", [&](Stream*) { static_cast<void>(backend->AllocateDevice(4)); }},
      {"a copy was put into a stream",
       [&](Stream* stream) { stream->Upload(host->data(), device->data(), sizeof(float)); }},
      {"an event was recorded", [&](Stream* stream) { stream->Record(event.get()); }},
      {"an event was waited for", [&](Stream* stream) { stream->WaitFor(*event); }},
      {"a stream was waited for",
       [&](Stream* stream) { stream->Synchronize().Ignore("the failure tells"); }},
  };

  for (const auto& c : cases) {
    const std::unique_ptr<Stream> stream = backend->MakeStream().value();
    ASSERT_TRUE(stream->BeginRecording());
    c.call(stream.get());
    static_cast<void>(stream->EndRecording());
    EXPECT_EQ(cuda_emulation::TakeFailure(), std::string(c.failure) + " while work is captured");
  }
}

/// A worker's other threads may free memory whenever they like.
TEST(CudaBackendTest, WhatIsFreedWhileWorkIsRecordedEndsTheRecording) {
  const std::unique_ptr<Backend> backend = MakeOwn();
  const std::unique_ptr<Memory> x = backend->AllocateDevice(sizeof(float)).value();
  for (const bool is_freed : {false, true}) {
    std::unique_ptr<Memory> other = backend->AllocateDevice(sizeof(float)).value();
    const std::unique_ptr<Stream> stream = backend->MakeStream().value();
    ASSERT_TRUE(stream->BeginRecording());
    stream->Fill(1, x->floats(), 1);
    if (is_freed) {
      std::thread([&] { other.reset(); }).join();
    }
    const std::unique_ptr<Recording> recording = stream->EndRecording();
    EXPECT_EQ(stream->CanReplay(*recording), !is_freed);
  }
}

TEST(CudaBackendTest, WhatIsFreedOnAnotherDeviceEndsNoRecording) {
  cuda_emulation::SetMachine(CUDART_VERSION, 2);
  {
    const std::unique_ptr<Backend> backend = MakeOwn();
    const std::unique_ptr<Backend> neighbour = MakeCudaBackend(1, GemmKind::kOwn).value();
    const std::unique_ptr<Memory> x = backend->AllocateDevice(sizeof(float)).value();
    const std::unique_ptr<Stream> stream = backend->MakeStream().value();
    ASSERT_TRUE(stream->BeginRecording());
    stream->Fill(1, x->floats(), 1);
    const std::unique_ptr<Recording> recording = stream->EndRecording();
    static_cast<void>(neighbour->AllocateDevice(4).value());
    EXPECT_TRUE(stream->CanReplay(*recording));
    static_cast<void>(backend->AllocateDevice(4).value());
    EXPECT_FALSE(stream->CanReplay(*recording));
  }
  cuda_emulation::SetMachine(CUDART_VERSION, 1);
}

TEST(CudaBackendTest, DevicesAreChosenByNumber) {
  EXPECT_EQ(
      MakeOwn()->Name(), "cuda:0 (emulated, compute capability 7.5, products by own kernels)");
  const auto absent = MakeCudaBackend(3, GemmKind::kOwn);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(absent.status().message(), "there is no cuda:3; this machine has cuda:0 to cuda:0");
  EXPECT_EQ(MakeCudaBackend(-1, GemmKind::kOwn).status().code(), StatusCode::kInvalidArgument);
}

// Machine code runs on devices of its major number; what the newest can translate it does.
TEST(CudaBackendTest, ADeviceIsTakenThatTheBuildHasCodeFor) {
  struct {
    int major;
    int minor;
    bool is_taken;
  } const cases[] = {
      {7, 0, false},
      {7, 5, true},
      {8, 0, true},
      {8, 9, true},
      {9, 0, false},
      {10, 0, true},
      {10, 3, true},
      {12, 0, true}};

  for (const auto& c : cases) {
    cuda_emulation::SetComputeCapability(c.major, c.minor);
    EXPECT_EQ(MakeCudaBackend(0, GemmKind::kOwn).ok(), c.is_taken) << c.major << "." << c.minor;
  }
  cuda_emulation::SetComputeCapability(9, 0);
  const Status status = MakeCudaBackend(0, GemmKind::kOwn).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(
      status.message(),
      "cuda:0 (emulated) has compute capability 9.0; this build has code for 7.5, 8.0, 10.0 and "
      "newer");
  cuda_emulation::SetComputeCapability(7, 5);
}

TEST(CudaBackendTest, AMachineWithoutADeviceSaysWhy) {
  struct {
    int driver_version;
    int devices;
    const char* message;
  } const cases[] = {
      {0, 0, "this machine has no NVIDIA driver"},
      {12040, 1, "the NVIDIA driver is too old: it knows CUDA 12.4, and this build needs 13.0"},
      {13000, 0, "the NVIDIA driver finds no device"},
  };

  for (const auto& c : cases) {
    cuda_emulation::SetMachine(c.driver_version, c.devices);
    const auto result = MakeCudaBackend(0, GemmKind::kOwn);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), StatusCode::kUnsupported);
    EXPECT_EQ(result.status().message(), c.message);
  }
  cuda_emulation::SetMachine(13000, 2);
  EXPECT_EQ(MakeCudaBackend(1, GemmKind::kOwn).value()->Name().substr(0, 6), "cuda:1");
  cuda_emulation::SetMachine(13000, 1);
}

TEST(CudaBackendTest, NothingOfADeviceIsLeftBehind) {
  const int before = cuda_emulation::LiveAllocations();
  for (const std::string& kind : AllOpKinds()) {
    const OpCase c = OpCasesOf(kind).back();
    OpRunner runner(c, 1);
    runner.Prepare(true);
    runner.Forward(true);
  }
  EXPECT_EQ(cuda_emulation::LiveAllocations(), before);
}

#ifdef PS_ADDRESS_SANITIZER

/// Runs a product with the memory of a shorter b.
void MultiplyPastTheEnd() {
  const std::unique_ptr<Backend> backend = MakeOwn();
  const std::unique_ptr<Stream> stream = backend->MakeStream().value();
  const auto a = backend->AllocateDevice(33 * 17 * sizeof(float)).value();
  const auto b = backend->AllocateDevice((17 * 31 - 1) * sizeof(float)).value();
  const auto c = backend->AllocateDevice(33 * 31 * sizeof(float)).value();
  const auto op = stream->MakeOp(LinearOptions{17, 31, false}).value();
  const std::vector<std::span<const float>> params = {{b->floats(), 17 * 31 - 1}};
  ASSERT_TRUE(op->Prepare(33, false).ok());
  op->Forward({.n = 33, .x = a->floats(), .y = c->floats(), .params = params});
  EXPECT_TRUE(stream->Synchronize().ok());
}

TEST(CudaBackendDeathTest, AKernelThatReadsPastItsMemoryIsFound) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_DEATH(MultiplyPastTheEnd(), "use-after-poison|heap-buffer-overflow");
}

#endif

}  // namespace
}  // namespace ps::kernels::test
