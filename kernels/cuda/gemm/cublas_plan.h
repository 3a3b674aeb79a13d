#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/cuda/gemm/cublas_library.h"
#include "kernels/cuda/gemm/gemm_choices.h"
#include "kernels/cuda/kernels.h"
#include "ps/base/status.h"

namespace ps::kernels {

/// Where the matrices of a product begin, of the types that the plan was made for.
struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;  // of the result's type
  void* c = nullptr;
};

/// A product of one shape as cuBLASLt describes it. Factors are of one type: f32, or bf16 if the
/// shape's precision is.
///
/// cuBLASLt's matrices are column-major, ours row-major: what it sees is the transpose of each.
/// With C^T = B^T A^T, b is its first operand and a its second, and a bias along its rows is one
/// along our columns.
class CublasPlan {
 public:
  /// Values from a row of a factor, as it is stored, to the next.
  struct Pitches {
    int64_t a = 0;
    int64_t b = 0;
  };

  /// Bytes that operands are aligned to.
  struct Alignments {
    size_t a = 0;
    size_t b = 0;
    size_t bias = 0;
    size_t c = 0;
  };

  /// `library` outlives the plan. Errors: those of CublasFailed.
  static Result<CublasPlan> Make(
      const CublasLibrary* library, const GemmShape& shape, const Pitches& pitches);

  CublasPlan(CublasPlan&& other) noexcept;
  CublasPlan& operator=(CublasPlan&&) = delete;
  ~CublasPlan();

  /// What the library proposes for operands that are aligned so, the best guess first; none of
  /// those that it says are not usable, that want more workspace, or whose sums have no fixed order
  /// in f32. Not empty. Errors: those of CublasFailed; kUnsupported when nothing is left.
  Result<std::vector<GemmAlgorithm>> Propose(
      cublasLtHandle_t handle, const Alignments& alignments, size_t workspace_bytes) const;

  /// Puts the product into the stream. `workspace` is as large as the algorithm wants, and aligned
  /// to 256 bytes. Requires: operands are aligned as was said to Propose.
  cublasStatus_t Multiply(
      cublasLtHandle_t handle,
      cudaStream_t stream,
      const GemmAlgorithm& algorithm,
      const GemmOperands& operands,
      std::span<std::byte> workspace) const;

 private:
  explicit CublasPlan(const CublasLibrary* library) : library_(library) {}

  Status Build(const GemmShape& shape, const Pitches& pitches);

  const CublasLibrary* library_;
  bool has_bias_ = false;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr;   // our b
  cublasLtMatrixLayout_t second_ = nullptr;  // our a
  cublasLtMatrixLayout_t result_ = nullptr;
};

}  // namespace ps::kernels
