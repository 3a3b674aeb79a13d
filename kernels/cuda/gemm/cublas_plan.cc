#include "kernels/cuda/gemm/cublas_plan.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace ps::kernels {
namespace {

constexpr int kProposalsMax = 8;

cublasLtEpilogue_t EpilogueOf(const GemmShape& shape) {
  if (shape.activation == Activation::kRelu) {
    return shape.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  }
  return shape.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

cudaDataType_t TypeOf(bool is_bf16) {
  return is_bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// Whether an algorithm adds up the parts of a sum in f32 and in a fixed order. The preference asks
/// for such ones alone; this is for a library that proposes others all the same.
bool HasFixedOrder(const CublasLibrary& library, const cublasLtMatmulAlgo_t& algorithm) {
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  size_t written_bytes = 0;
  const cublasStatus_t status = library.get_config(
      &algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof(scheme), &written_bytes);
  // An algorithm without such a setting does not split its sums.
  return status != CUBLAS_STATUS_SUCCESS || scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
         scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

}  // namespace

Result<CublasPlan> CublasPlan::Make(
    const CublasLibrary* library, const GemmShape& shape, const Pitches& pitches) {
  CublasPlan plan(library);
  PS_TRY(plan.Build(shape, pitches));
  return plan;
}

CublasPlan::CublasPlan(CublasPlan&& other) noexcept
    : library_(other.library_),
      has_bias_(other.has_bias_),
      product_(std::exchange(other.product_, nullptr)),
      first_(std::exchange(other.first_, nullptr)),
      second_(std::exchange(other.second_, nullptr)),
      result_(std::exchange(other.result_, nullptr)) {}

CublasPlan::~CublasPlan() {
  for (cublasLtMatrixLayout_t layout : {first_, second_, result_}) {
    if (layout != nullptr) {
      static_cast<void>(library_->free_layout(layout));
    }
  }
  if (product_ != nullptr) {
    static_cast<void>(library_->free_product(product_));
  }
}

Status CublasPlan::Build(const GemmShape& shape, const Pitches& pitches) {
  const auto check = [](const char* what, cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? Status::Ok() : CublasFailed(what, status);
  };
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    return check(
        "describing a product", library_->set_product(product_, attribute, &value, sizeof(value)));
  };
  PS_TRY(
      check("making a product", library_->make_product(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F)));
  PS_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N));
  PS_TRY(set(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N));
  PS_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(shape)));
  has_bias_ = shape.bias;
  // Rows and columns as cuBLASLt sees them: its columns are our rows.
  const auto layout = [&](cublasLtMatrixLayout_t* out,
                          cudaDataType_t type,
                          int64_t our_rows,
                          int64_t our_columns,
                          int64_t pitch) {
    return check(
        "describing a matrix",
        library_->make_layout(
            out, type, static_cast<uint64_t>(our_columns), static_cast<uint64_t>(our_rows), pitch));
  };
  const cudaDataType_t factor = TypeOf(shape.precision == Precision::kBf16);
  PS_TRY(layout(&first_, factor, shape.rows_b(), shape.columns_b(), pitches.b));
  PS_TRY(layout(&second_, factor, shape.rows_a(), shape.columns_a(), pitches.a));
  return layout(&result_, TypeOf(shape.bf16_c), shape.m, shape.n, shape.pitch_c());
}

Result<std::vector<GemmAlgorithm>> CublasPlan::Propose(
    cublasLtHandle_t handle, const Alignments& alignments, size_t workspace_bytes) const {
  cublasLtMatmulPreference_t preference = nullptr;
  cublasStatus_t status = library_->make_preference(&preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = library_->set_preference(preference, attribute, &value, sizeof(value));
    }
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{workspace_bytes});
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  // Its first operand is our b.
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(alignments.b));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(alignments.a));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(alignments.c));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(alignments.c));
  if (has_bias_ && status == CUBLAS_STATUS_SUCCESS) {
    // What is proposed follows the alignment of this address, which is not read.
    constexpr uintptr_t kPage = 4096;
    const auto* const told = reinterpret_cast<const void*>(kPage + alignments.bias);
    status =
        library_->set_product(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &told, sizeof(told));
  }
  std::array<cublasLtMatmulHeuristicResult_t, kProposalsMax> proposals{};
  int found = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = library_->propose(
        handle,
        product_,
        first_,
        second_,
        result_,
        result_,
        preference,
        kProposalsMax,
        proposals.data(),
        &found);
  }
  if (preference != nullptr) {
    static_cast<void>(library_->free_preference(preference));
  }
  if (status != CUBLAS_STATUS_SUCCESS) {
    return CublasFailed("choosing how to multiply", status);
  }
  std::vector<GemmAlgorithm> usable;
  for (const auto& proposal : std::span(proposals).first(static_cast<size_t>(found))) {
    if (proposal.state == CUBLAS_STATUS_SUCCESS && proposal.workspaceSize <= workspace_bytes &&
        HasFixedOrder(*library_, proposal.algo)) {
      usable.push_back({proposal.algo, proposal.workspaceSize});
    }
  }
  if (usable.empty()) {
    return Status::Unsupported(
        "cuBLASLt: choosing how to multiply: nothing that it proposes is usable");
  }
  return usable;
}

cublasStatus_t CublasPlan::Multiply(
    cublasLtHandle_t handle,
    cudaStream_t stream,
    const GemmAlgorithm& algorithm,
    const GemmOperands& operands,
    std::span<std::byte> workspace) const {
  if (operands.bias != nullptr) {
    const cublasStatus_t status = library_->set_product(
        product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &operands.bias, sizeof(operands.bias));
    if (status != CUBLAS_STATUS_SUCCESS) {
      return status;
    }
  }
  const float one = 1;
  const float zero = 0;
  return library_->multiply(
      handle,
      product_,
      &one,
      operands.b,
      first_,
      operands.a,
      second_,
      &zero,
      operands.c,
      result_,
      operands.c,
      result_,
      &algorithm.algo,
      workspace.data(),
      std::min(workspace.size(), algorithm.workspace_bytes),
      stream);
}

}  // namespace ps::kernels
