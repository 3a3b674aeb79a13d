// cuBLASLt's product by plain loops, as strict as its manual: what it would refuse, or leave to
// chance, is refused. A product is a kernel of one thread, so it runs as late, and its memory is
// looked after, as of any other. Matrices are column-major.

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

#include "tests/cuda_emulation/runtime.h"

namespace {

bool is_there = true;

struct Symbol {
  std::string_view name;
  void* function;
};

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

constexpr uint64_t kWorkspaceWanted = 4096;
constexpr uint64_t kWorkspaceAlignment = 16;

bool IsAligned(const void* memory, uint64_t alignment) {
  return reinterpret_cast<uintptr_t>(memory) % alignment == 0;
}

}  // namespace

struct cublasLtContext {};

struct CublasProduct {
  cublasOperation_t a = CUBLAS_OP_N;
  cublasOperation_t b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;

  bool has_bias() const { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
};

struct CublasLayout {
  /// What is at [row, column] of the matrix, transposed or not.
  float At(const void* data, cublasOperation_t operation, int64_t row, int64_t column) const {
    const int64_t i = operation == CUBLAS_OP_N ? column * ld + row : row * ld + column;
    if (type == CUDA_R_32F) {
      return static_cast<const float*>(data)[i];
    }
    return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(data)[i]} << 16U);
  }

  int64_t Rows(cublasOperation_t operation) const { return operation == CUBLAS_OP_N ? rows : cols; }

  int64_t Columns(cublasOperation_t operation) const {
    return operation == CUBLAS_OP_N ? cols : rows;
  }

  cudaDataType_t type;
  int64_t rows;
  int64_t cols;
  int64_t ld;
};

struct CublasPreference {
  uint64_t workspace_bytes = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};  // what is promised of a, b, c and d
};

namespace {

cublasStatus_t Check(
    const CublasProduct& product,
    const CublasLayout& a,
    const CublasLayout& b,
    const CublasLayout& c,
    const CublasLayout& d) {
  const bool fits = a.Rows(product.a) == d.rows && b.Columns(product.b) == d.cols &&
                    a.Columns(product.a) == b.Rows(product.b) && c.rows == d.rows &&
                    c.cols == d.cols;
  if (!fits) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool is_possible = a.type == b.type && c.type == CUDA_R_32F && d.type == CUDA_R_32F;
  return is_possible ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/// Reads an attribute that is as large as T.
template <typename T>
cublasStatus_t ReadInto(T* to, const void* value, size_t size_bytes) {
  if (value == nullptr || size_bytes != sizeof(T)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(to, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

namespace ps::cuda_emulation {

void SetCublas(bool is_installed) {
  is_there = is_installed;
}

}  // namespace ps::cuda_emulation

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(
    cublasLtMatmulDesc_t* product, cublasComputeType_t compute, cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  *product = new CublasProduct;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete product;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t product,
    cublasLtMatmulDescAttributes_t attribute,
    const void* value,
    size_t size_bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return ReadInto(&product->a, value, size_bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return ReadInto(&product->b, value, size_bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return ReadInto(&product->epilogue, value, size_bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return ReadInto(&product->bias, value, size_bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(
    cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows, uint64_t cols, int64_t ld) {
  const auto height = static_cast<int64_t>(rows);
  if (rows == 0 || cols == 0 || ld < height) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *layout = new CublasLayout{type, height, static_cast<int64_t>(cols), ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new CublasPreference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute,
    const void* value,
    size_t size_bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return ReadInto(&preference->workspace_bytes, value, size_bytes);
  }
  const int which = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  return which < 0 || which > 3 ? CUBLAS_STATUS_INVALID_VALUE
                                : ReadInto(&preference->alignments[which], value, size_bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t /*handle*/,
    cublasLtMatmulDesc_t product,
    cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference,
    int wanted,
    cublasLtMatmulHeuristicResult_t results[],
    int* found) {
  *found = 0;
  if (wanted < 1) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (const cublasStatus_t status = Check(*product, *a, *b, *c, *d);
      status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  results[0] = {};
  std::copy_n(preference->alignments, 4, results[0].algo.data);
  results[0].algo.data[4] = std::min(preference->workspace_bytes, kWorkspaceWanted);
  results[0].workspaceSize = results[0].algo.data[4];
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t /*handle*/,
    cublasLtMatmulDesc_t product,
    const void* alpha,
    const void* a_data,
    cublasLtMatrixLayout_t a,
    const void* b_data,
    cublasLtMatrixLayout_t b,
    const void* beta,
    const void* c_data,
    cublasLtMatrixLayout_t c,
    void* d_data,
    cublasLtMatrixLayout_t d,
    const cublasLtMatmulAlgo_t* algo,
    void* workspace,
    size_t workspace_bytes,
    cudaStream_t stream) {
  if (const cublasStatus_t status = Check(*product, *a, *b, *c, *d);
      status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  const bool is_in_place = c_data == d_data && c->ld == d->ld;
  const bool is_aligned = IsAligned(a_data, algo->data[0]) && IsAligned(b_data, algo->data[1]) &&
                          IsAligned(c_data, algo->data[2]) && IsAligned(d_data, algo->data[3]) &&
                          IsAligned(workspace, kWorkspaceAlignment);
  const bool has_what_it_needs =
      workspace_bytes >= algo->data[4] && (!product->has_bias() || product->bias != nullptr);
  if (!is_in_place || !is_aligned || !has_what_it_needs) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const float scale = *static_cast<const float*>(alpha);
  const float kept = *static_cast<const float*>(beta);
  // The descriptors may be changed when the call has returned.
  const auto multiply = [=, p = *product, a = *a, b = *b, d = *d] {
    std::fill_n(
        static_cast<float*>(workspace),
        workspace_bytes / sizeof(float),
        std::numeric_limits<float>::quiet_NaN());
    auto* const out = static_cast<float*>(d_data);
    for (int64_t column = 0; column < d.cols; ++column) {
      for (int64_t row = 0; row < d.rows; ++row) {
        float sum = 0;
        for (int64_t k = 0; k < a.Columns(p.a); ++k) {
          sum += a.At(a_data, p.a, row, k) * b.At(b_data, p.b, k, column);
        }
        float& to = out[column * d.ld + row];
        sum = scale * sum + (kept == 0 ? 0.0F : kept * to) + (p.has_bias() ? p.bias[row] : 0.0F);
        const bool is_cut = (p.epilogue & CUBLASLT_EPILOGUE_RELU) != 0 && sum < 0;
        to = is_cut ? 0.0F : sum;
      }
    }
  };
  return ps::cuda_emulation::Launch(stream, dim3(1), dim3(1), multiply) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

// What cublas_gemm.cc is told to call in place of dlopen and dlsym.

extern "C" void* EmulatedOpen(const char* /*name*/, int /*mode*/) noexcept {
  return is_there ? &is_there : nullptr;
}

extern "C" void* EmulatedSymbol(void* /*library*/, const char* name) noexcept {
  static const Symbol symbols[] = {
      {"cublasLtCreate", Address(&cublasLtCreate)},
      {"cublasLtDestroy", Address(&cublasLtDestroy)},
      {"cublasLtMatmulDescCreate", Address(&cublasLtMatmulDescCreate)},
      {"cublasLtMatmulDescDestroy", Address(&cublasLtMatmulDescDestroy)},
      {"cublasLtMatmulDescSetAttribute", Address(&cublasLtMatmulDescSetAttribute)},
      {"cublasLtMatrixLayoutCreate", Address(&cublasLtMatrixLayoutCreate)},
      {"cublasLtMatrixLayoutDestroy", Address(&cublasLtMatrixLayoutDestroy)},
      {"cublasLtMatmulPreferenceCreate", Address(&cublasLtMatmulPreferenceCreate)},
      {"cublasLtMatmulPreferenceDestroy", Address(&cublasLtMatmulPreferenceDestroy)},
      {"cublasLtMatmulPreferenceSetAttribute", Address(&cublasLtMatmulPreferenceSetAttribute)},
      {"cublasLtMatmulAlgoGetHeuristic", Address(&cublasLtMatmulAlgoGetHeuristic)},
      {"cublasLtMatmul", Address(&cublasLtMatmul)},
  };
  for (const Symbol& symbol : symbols) {
    if (symbol.name == name) {
      return symbol.function;
    }
  }
  return nullptr;
}
