#include "kernels/cuda/gemm/cublas_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <type_traits>

namespace ps::kernels {
namespace {

const char* TextOf(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library is not initialised";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "not enough memory for what the library allocates";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "invalid value";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "not possible on a device of this architecture";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "the device's memory could not be accessed";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the device failed to run it";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "internal error";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "not supported";
    default:
      return "failed";
  }
}

StatusCode CodeOf(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_MAPPING_ERROR:
    case CUBLAS_STATUS_EXECUTION_FAILED:
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return StatusCode::kUnavailable;
    case CUBLAS_STATUS_ALLOC_FAILED:
      return StatusCode::kInvalidArgument;
    default:
      return StatusCode::kUnsupported;
  }
}

}  // namespace

Status CublasFailed(const std::string& what, cublasStatus_t status) {
  return {
      CodeOf(status),
      fmt::format("cuBLASLt: {}: {} (status {})", what, TextOf(status), static_cast<int>(status))};
}

Result<CublasLibrary> LoadCublas() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    handle = dlopen(("/usr/local/cuda/lib64/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == nullptr) {
    return Status::Unsupported(fmt::format(
        "{} is not to be found; install cuBLAS of CUDA {}, or put its folder in LD_LIBRARY_PATH",
        name,
        CUBLAS_VER_MAJOR));
  }
  CublasLibrary library;
  std::string missing;
  const auto find = [&](const char* symbol, auto* function) {
    void* found = dlsym(handle, symbol);
    if (found == nullptr) {
      missing = symbol;
    }
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(found);
  };
  find("cublasLtCreate", &library.create);
  find("cublasLtDestroy", &library.destroy);
  find("cublasLtMatmulDescCreate", &library.make_product);
  find("cublasLtMatmulDescDestroy", &library.free_product);
  find("cublasLtMatmulDescSetAttribute", &library.set_product);
  find("cublasLtMatrixLayoutCreate", &library.make_layout);
  find("cublasLtMatrixLayoutDestroy", &library.free_layout);
  find("cublasLtMatmulPreferenceCreate", &library.make_preference);
  find("cublasLtMatmulPreferenceDestroy", &library.free_preference);
  find("cublasLtMatmulPreferenceSetAttribute", &library.set_preference);
  find("cublasLtMatmulAlgoGetHeuristic", &library.propose);
  find("cublasLtMatmulAlgoConfigGetAttribute", &library.get_config);
  find("cublasLtMatmul", &library.multiply);
  if (!missing.empty()) {
    return Status::Unsupported(name + " has no " + missing);
  }
  return library;
}

}  // namespace ps::kernels
