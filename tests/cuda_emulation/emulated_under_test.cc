#include "kernels/cuda/backend.h"
#include "tests/kernels/op_runner.h"

namespace ps::kernels::test {

Backend* BackendUnderTest() {
  static const std::unique_ptr<Backend> backend = MakeCudaBackend(0, GemmKind::kOwn).value();
  return backend.get();
}

}  // namespace ps::kernels::test
