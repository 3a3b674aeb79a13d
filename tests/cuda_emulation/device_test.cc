#include "worker/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/cuda_emulation/runtime.h"

// Which device a worker gets, on machines of every kind.

namespace ps::worker::test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kDriver = 13000;

class DeviceTest : public ::testing::Test {
 protected:
  ~DeviceTest() override {
    cuda_emulation::SetMachine(kDriver, 1);
    cuda_emulation::SetComputeCapability(7, 5);
    cuda_emulation::SetCublas(true);
  }

  static Result<Device> Open(
      const char* choice, uint32_t seat = 0, Products how = Products::kSameBits) {
    return OpenDevice(proto::ParseDevice(choice).value(), WorkerId(seat), how);
  }

  static std::string NameOf(const char* choice, uint32_t seat = 0) {
    return Open(choice, seat).value().name;
  }
};

TEST_F(DeviceTest, TheCpuIsTakenWithoutALookAtOthers) {
  cuda_emulation::SetMachine(0, 0);
  const Device device = Open("cpu").value();
  EXPECT_EQ(device.name, "cpu");
  EXPECT_EQ(device.note, "");
  EXPECT_EQ(device.backends[0]->Name(), "cpu");
}

TEST_F(DeviceTest, WorkersOfOneMachineSpreadOverItsDevices) {
  cuda_emulation::SetMachine(kDriver, 2);
  EXPECT_EQ(NameOf("cuda", 0), "cuda:0");
  EXPECT_EQ(NameOf("cuda", 1), "cuda:1");
  EXPECT_EQ(NameOf("cuda", 2), "cuda:0");
  EXPECT_EQ(NameOf("auto", 3), "cuda:1");
  EXPECT_EQ(NameOf("cuda:1", 0), "cuda:1");
  EXPECT_THAT(Open("cuda:1").value().backends[0]->Name(), StartsWith("cuda:1 (emulated"));
}

TEST_F(DeviceTest, AWorkerMayHaveSeveralDevicesInAnyOrder) {
  cuda_emulation::SetMachine(kDriver, 3);
  const Device device = Open("cuda:2,0", 1).value();
  EXPECT_EQ(device.name, "cuda:2,0");
  ASSERT_EQ(device.backends.size(), 2U);
  EXPECT_THAT(device.backends[0]->Name(), StartsWith("cuda:2 (emulated"));
  EXPECT_THAT(device.backends[1]->Name(), StartsWith("cuda:0 (emulated"));
  const Result<Device> absent = Open("cuda:1,3");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(absent.status().message()),
      HasSubstr("there is no cuda:3; this machine has cuda:0 to cuda:2"));
}

TEST_F(DeviceTest, ANumberThatThereIsNotIsRefused) {
  const Result<Device> absent = Open("cuda:3");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(absent.status().message()),
      HasSubstr("there is no cuda:3; this machine has cuda:0 to cuda:0"));
}

TEST_F(DeviceTest, WithoutAUsableDeviceCudaSaysWhyAndAutoTakesTheCpu) {
  struct {
    int driver;
    int devices;
    int compute_major;
    const char* why;
  } const cases[] = {
      {0, 0, 7, "this machine has no NVIDIA driver"},
      {12040, 1, 7, "the NVIDIA driver is too old: it knows CUDA 12.4, and this build needs 13.0"},
      {kDriver, 0, 7, "the NVIDIA driver finds no device"},
      {kDriver,
       1,
       6,
       "cuda:0 (emulated) has compute capability 6.1; this build has code for 7.5, 8.0, 10.0 and "
       "newer"},
  };

  for (const auto& c : cases) {
    cuda_emulation::SetMachine(c.driver, c.devices);
    cuda_emulation::SetComputeCapability(c.compute_major, c.compute_major == 6 ? 1 : 5);
    const Result<Device> cuda = Open("cuda");
    ASSERT_FALSE(cuda.ok()) << c.why;
    EXPECT_EQ(cuda.status().code(), StatusCode::kUnsupported);
    EXPECT_THAT(
        std::string(cuda.status().message()),
        AllOf(
            StartsWith(std::string("no CUDA device for this worker: ") + c.why + "; set "),
            EndsWith("or give ps_worker --device")));
    const Device device = Open("auto").value();
    EXPECT_EQ(device.name, "cpu");
    EXPECT_EQ(device.note, std::string(c.why) + "; the CPU computes");
  }
}

TEST_F(DeviceTest, WithoutCublasOurOwnKernelsMultiplyAndItIsSaid) {
  EXPECT_THAT(Open("cuda").value().backends[0]->Name(), HasSubstr("products by cuBLASLt"));
  EXPECT_EQ(Open("cuda").value().note, "");
  cuda_emulation::SetCublas(false);
  const Device device = Open("cuda").value();
  EXPECT_THAT(device.backends[0]->Name(), HasSubstr("products by own kernels"));
  EXPECT_EQ(
      device.note,
      "libcublasLt.so.13 is not to be found; install cuBLAS of CUDA 13, or put its "
      "folder in LD_LIBRARY_PATH; slower kernels of our own multiply");
}

/// Which of them a worker asks for depends on the job's mode.
TEST_F(DeviceTest, ProductsAreTimedOnlyWhereTheirBitsMayDifferBetweenRuns) {
  const Device same = Open("cuda", 0, Products::kSameBits).value();
  EXPECT_THAT(same.backends[0]->Name(), EndsWith("products by cuBLASLt)"));
  const Device fastest = Open("cuda", 0, Products::kFastest).value();
  EXPECT_THAT(fastest.backends[0]->Name(), EndsWith("products by cuBLASLt, timed)"));
}

}  // namespace
}  // namespace ps::worker::test
