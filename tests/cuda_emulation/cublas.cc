// cuBLASLt's product by plain loops, as strict as its manual: what it would refuse, or leave to
// chance, is refused, and a promise that is not kept. A product is a kernel of one thread, so it
// runs as late, and its memory is looked after, as of any other. Matrices are column-major.

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "tests/cuda_emulation/cublas_objects.h"
#include "tests/cuda_emulation/machine.h"

using ps::cuda_emulation::Algorithm;
using ps::cuda_emulation::BytesOf;
using ps::cuda_emulation::CublasAlgorithm;
using ps::cuda_emulation::IsAligned;
using ps::cuda_emulation::SumOf;
using ps::cuda_emulation::TheMachine;
using ps::cuda_emulation::ToBf16;
using ps::cuda_emulation::Turn;
using ps::cuda_emulation::Unpack;
using ps::cuda_emulation::ValueAt;

namespace {

bool is_there = true;
std::vector<CublasAlgorithm> algorithms;
std::vector<int> products;  // places in `algorithms`

struct Symbol {
  std::string_view name;
  void* function;
};

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

constexpr uint64_t kWorkspaceAlignment = 16;

/// Two that nobody may take, one that wants more than there is, one that adds up where the result
/// will be, and the best guess in front of a faster one.
std::vector<CublasAlgorithm> FirstAlgorithms() {
  return {
      {.is_usable = false, .run_ms = 0.1},
      {.workspace_bytes = uint64_t{1} << 40, .run_ms = 0.1},
      {.reduction_scheme = CUBLASLT_REDUCTION_SCHEME_INPLACE, .run_ms = 0.1},
      {.workspace_bytes = 4096, .run_ms = 2},
      {.workspace_bytes = 4096,
       .reduction_scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
       .alignment_bytes = 16,
       .run_ms = 1},
      {.is_refused = true, .run_ms = 0.1}};
}

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
  // A result in bf16 wants factors and a bias in bf16.
  const bool is_possible = a.type == b.type && c.type == d.type &&
                           (d.type == CUDA_R_32F || a.type == CUDA_R_16BF) &&
                           (product.bias_type == -1 || product.bias_type == d.type);
  return is_possible ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/// Whether what is promised allows that algorithm.
bool IsProposed(
    const CublasAlgorithm& algorithm,
    const CublasPreference& preference,
    const std::array<const CublasLayout*, 4>& layouts) {
  const int scheme = algorithm.reduction_scheme;
  bool is = scheme == 0 || (static_cast<uint32_t>(scheme) & preference.reduction_schemes) != 0;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const uint64_t row_bytes = static_cast<uint64_t>(layouts[i]->ld) * BytesOf(layouts[i]->type);
    is = is && preference.alignments[i] % algorithm.alignment_bytes == 0 &&
         row_bytes % algorithm.alignment_bytes == 0;
  }
  return is;
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

void SetCublasAlgorithms(std::vector<CublasAlgorithm> list) {
  algorithms = std::move(list);
}

std::vector<int> TakeCublasProducts() {
  const Turn turn;
  return std::exchange(products, {});
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
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return ReadInto(&product->bias_type, value, size_bytes);
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
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    return ReadInto(&preference->reduction_schemes, value, size_bytes);
  }
  const int which = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  return which < 0 || which > 3
             ? CUBLAS_STATUS_INVALID_VALUE
             : ReadInto(&preference->alignments[static_cast<size_t>(which)], value, size_bytes);
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
  const std::vector<CublasAlgorithm> all = algorithms.empty() ? FirstAlgorithms() : algorithms;
  for (size_t i = 0; i < all.size() && *found < wanted; ++i) {
    const CublasAlgorithm& from = all[i];
    if (!IsProposed(from, *preference, {a, b, c, d})) {
      continue;
    }
    Algorithm algorithm{};
    std::ranges::transform(
        preference->alignments, algorithm.alignments.begin(), [](uint32_t alignment) {
          return static_cast<uint16_t>(alignment);
        });
    algorithm.workspace_bytes = from.workspace_bytes;
    algorithm.layouts = SumOf(*product, {a, b, c, d});
    algorithm.run_ms = from.run_ms;
    algorithm.reduction_scheme = from.reduction_scheme;
    algorithm.place = static_cast<int16_t>(i);
    algorithm.is_usable = from.is_usable;
    algorithm.is_refused = from.is_refused;
    cublasLtMatmulHeuristicResult_t& result = results[*found];
    result = {};
    std::memcpy(result.algo.data, &algorithm, sizeof(algorithm));
    result.workspaceSize = from.workspace_bytes;
    result.state = from.is_usable ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
    ++*found;
  }
  return *found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t* algo,
    cublasLtMatmulAlgoConfigAttributes_t attribute,
    void* value,
    size_t size_bytes,
    size_t* written_bytes) {
  if (attribute != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME || value == nullptr ||
      size_bytes != sizeof(uint32_t)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto scheme = static_cast<uint32_t>(Unpack(*algo).reduction_scheme);
  std::memcpy(value, &scheme, sizeof(scheme));
  *written_bytes = sizeof(scheme);
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
  const Algorithm how = Unpack(*algo);
  if (!how.is_usable || how.is_refused) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool is_in_place = c_data == d_data && c->ld == d->ld;
  const bool is_aligned =
      IsAligned(a_data, how.alignments[0]) && IsAligned(b_data, how.alignments[1]) &&
      IsAligned(c_data, how.alignments[2]) && IsAligned(d_data, how.alignments[3]) &&
      (how.workspace_bytes == 0 || IsAligned(workspace, kWorkspaceAlignment));
  const bool has_what_it_needs =
      workspace_bytes >= how.workspace_bytes && (!product->has_bias() || product->bias != nullptr);
  const bool is_as_proposed = how.layouts == SumOf(*product, {a, b, c, d});
  if (!is_in_place || !is_aligned || !has_what_it_needs || !is_as_proposed) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  {
    const Turn turn;
    products.push_back(how.place);
  }
  const float scale = *static_cast<const float*>(alpha);
  const float kept = *static_cast<const float*>(beta);
  // The descriptors may be changed when the call has returned.
  const auto multiply = [=, p = *product, a = *a, b = *b, d = *d, device = stream->device] {
    TheMachine().on(device).clock_ms += how.run_ms;
    std::fill_n(
        static_cast<float*>(workspace),
        how.workspace_bytes / sizeof(float),
        std::numeric_limits<float>::quiet_NaN());
    const int64_t depth = a.Columns(p.a);
    const int64_t half = how.reduction_scheme == 0 ? depth : depth / 2;
    for (int64_t column = 0; column < d.cols; ++column) {
      for (int64_t row = 0; row < d.rows; ++row) {
        const auto sum_over = [&](int64_t begin, int64_t end) {
          float sum = 0;
          for (int64_t k = begin; k < end; ++k) {
            sum += a.At(a_data, p.a, row, k) * b.At(b_data, p.b, k, column);
          }
          return sum;
        };
        const int64_t at = column * d.ld + row;
        const float before = kept == 0 ? 0.0F : kept * ValueAt(d_data, d.type, at);
        const float bias = p.has_bias() ? ValueAt(p.bias, d.type, row) : 0.0F;
        float sum = scale * (sum_over(0, half) + sum_over(half, depth)) + before + bias;
        sum = (p.epilogue & CUBLASLT_EPILOGUE_RELU) != 0 && sum < 0 ? 0.0F : sum;
        if (d.type == CUDA_R_32F) {
          static_cast<float*>(d_data)[at] = sum;
        } else {
          static_cast<uint16_t*>(d_data)[at] = ToBf16(sum);
        }
      }
    }
  };
  return ps::cuda_emulation::Launch(stream, dim3(1), dim3(1), multiply) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

// What cublas_library.cc is told to call in place of dlopen and dlsym.

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
      {"cublasLtMatmulAlgoConfigGetAttribute", Address(&cublasLtMatmulAlgoConfigGetAttribute)},
      {"cublasLtMatmul", Address(&cublasLtMatmul)},
  };
  for (const Symbol& symbol : symbols) {
    if (symbol.name == name) {
      return symbol.function;
    }
  }
  return nullptr;
}
