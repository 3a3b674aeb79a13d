// The table of ops and the work of streams on this machine's first CUDA device, against plain loops
// and against the CPU, and small models against PyTorch's figures. Exit status 77 and the reason
// where there is no device.
//   cuda_parity [--own-gemm | --timed-gemm] [--gtest_...]

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/backend.h"
#include "tests/kernels/op_runner.h"

namespace ps::kernels::test {
namespace {

std::unique_ptr<Backend> opened_device;

}  // namespace

Backend* BackendUnderTest() {
  return opened_device.get();
}

}  // namespace ps::kernels::test

int main(int argc, char** argv) {
  using ps::kernels::GemmKind;
  testing::InitGoogleTest(&argc, argv);
  GemmKind gemm = GemmKind::kCublas;
  if (argc == 2 && std::strcmp(argv[1], "--own-gemm") == 0) {
    gemm = GemmKind::kOwn;
  } else if (argc == 2 && std::strcmp(argv[1], "--timed-gemm") == 0) {
    gemm = GemmKind::kCublasTimed;
  } else if (argc > 1) {
    std::fprintf(stderr, "usage: cuda_parity [--own-gemm | --timed-gemm] [--gtest_...]\n");
    return 2;
  }
  auto backend = ps::kernels::MakeCudaBackend(0, gemm);
  if (!backend.ok()) {
    std::printf("SKIP: %s\n", std::string(backend.status().message()).c_str());
    return 77;
  }
  ps::kernels::test::opened_device = std::move(backend).value();
  std::printf("device: %s\n", ps::kernels::test::opened_device->Name().c_str());
  const int result = RUN_ALL_TESTS();
  ps::kernels::test::opened_device.reset();
  return result;
}
