#include "kernels/cpu/backend.h"
#include "tests/kernels/op_runner.h"

namespace ps::kernels::test {

Backend* BackendUnderTest() {
  static const std::unique_ptr<Backend> backend = MakeCpuBackend();
  return backend.get();
}

}  // namespace ps::kernels::test
