#pragma once

#include <cublasLt.h>

#include <string>

#include "ps/base/status.h"

namespace ps::kernels {

/// cuBLASLt's functions, found by name when a device is used, so that one program runs on machines
/// with and without CUDA's libraries.
struct CublasLibrary {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) make_product = nullptr;
  decltype(&cublasLtMatmulDescDestroy) free_product = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) make_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) free_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) make_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) free_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) propose = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) get_config = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;
};

/// The process has it once, however often this is called. Errors: kUnsupported.
Result<CublasLibrary> LoadCublas();

/// A call that failed, for people: "cuBLASLt: choosing how to multiply: not supported (status 15)".
/// Code: kUnavailable where the device has failed; kInvalidArgument where memory was short; else
/// kUnsupported. Requires: not CUBLAS_STATUS_SUCCESS.
Status CublasFailed(const std::string& what, cublasStatus_t status);

}  // namespace ps::kernels
