// Products by cuBLASLt. It is loaded when a device is used, so that one program runs on machines
// with and without CUDA's libraries.
//
// cuBLASLt's matrices are column-major, ours row-major: what it sees is the transpose of each. With
// C^T = B^T A^T, b is its first operand and a its second, and a bias along its rows is one along
// our columns.
//
// In bf16 it gets rounded copies of a and b, made in memory of ours that is aligned as its fastest
// kernels want it. Devices without tensor cores for bf16 take the folder's own kernel.

#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/stream.h"
#include "ps/base/check.h"

namespace ps::kernels {
namespace {

/// The functions used here, found by name.
struct Library {
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
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;
};

Status Unusable(const char* what, cublasStatus_t status) {
  return Status::Unsupported(
      fmt::format("cuBLASLt: {} failed with status {}", what, static_cast<int>(status)));
}

Result<Library> LoadLibrary() {
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
  Library library;
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
  find("cublasLtMatmulAlgoGetHeuristic", &library.choose);
  find("cublasLtMatmul", &library.multiply);
  if (!missing.empty()) {
    return Status::Unsupported(name + " has no " + missing);
  }
  return library;
}

constexpr size_t kCopyAlignment = 64;

/// How one shape is multiplied.
struct Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t first = nullptr;   // our b
  cublasLtMatrixLayout_t second = nullptr;  // our a
  cublasLtMatrixLayout_t result = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace_bytes = 0;
  uint64_t prepared = 0;  // grows with each Prepare of a product
};

class CublasGemm final : public Gemm {
 public:
  CublasGemm(
      const Library& library,
      int device,
      bool has_bf16,
      cublasLtHandle_t handle,
      std::unique_ptr<Memory> workspace)
      : library_(library),
        device_(device),
        has_bf16_(has_bf16),
        handle_(handle),
        workspace_(std::move(workspace)) {}

  ~CublasGemm() override {
    for (auto& [shape, plan] : plans_) {
      Free(&plan);
    }
    static_cast<void>(library_.destroy(handle_));
  }

  Status Prepare(const GemmShape& shape) override {
    if (IsOurs(shape)) {
      return Status::Ok();
    }
    ++prepared_;
    if (const auto it = plans_.find(shape); it != plans_.end()) {
      it->second.prepared = prepared_;
      return Status::Ok();
    }
    if (shape.precision == Precision::kBf16) {
      const size_t size_bytes = SecondCopy(shape) + sizeof(uint16_t) * Size(shape.k, shape.n);
      if (copies_ == nullptr || copies_->size() < size_bytes) {
        copies_.reset();
        PS_ASSIGN(copies_, AllocateCudaMemory(device_, MemoryKind::kDevice, size_bytes));
      }
    }
    // A job uses few batch sizes: the minibatch, the tail of a lease, the evaluation batch. Those
    // of the pass that is being prepared are the newest.
    constexpr size_t kPlansMax = 512;
    if (plans_.size() == kPlansMax) {
      const auto oldest = std::ranges::min_element(
          plans_, {}, [](const auto& entry) { return entry.second.prepared; });
      Free(&oldest->second);
      plans_.erase(oldest);
    }
    Plan plan;
    plan.prepared = prepared_;
    Status status = Build(shape, &plan);
    if (!status.ok()) {
      Free(&plan);
      return status;
    }
    plans_.emplace(shape, plan);
    return Status::Ok();
  }

  cudaError_t Run(
      cudaStream_t stream,
      const GemmShape& shape,
      const float* a,
      const float* b,
      const float* bias,
      float* c) override {
    if (IsOurs(shape)) {
      return TiledGemm(stream, shape, a, b, bias, c);
    }
    bias = shape.bias ? bias : nullptr;
    const auto it = plans_.find(shape);
    PS_CHECK(it != plans_.end()) << "a product was not prepared";
    if (shape.precision == Precision::kF32) {
      return Multiply(stream, it->second, a, b, bias, c);
    }
    auto* const first = reinterpret_cast<uint16_t*>(copies_->data());
    auto* const second = reinterpret_cast<uint16_t*>(copies_->data() + SecondCopy(shape));
    cudaError_t error = PackBf16Values(stream, a, first, shape.m * shape.k);
    if (error == cudaSuccess) {
      error = PackBf16Values(stream, b, second, shape.k * shape.n);
    }
    return error == cudaSuccess ? Multiply(stream, it->second, first, second, bias, c) : error;
  }

 private:
  /// Products that the folder's own kernel makes. cuBLASLt has no empty matrices.
  bool IsOurs(const GemmShape& shape) const {
    const bool is_empty = shape.m == 0 || shape.n == 0 || shape.k == 0;
    return is_empty || (shape.precision == Precision::kBf16 && !has_bf16_);
  }

  static size_t Size(int64_t rows, int64_t columns) { return static_cast<size_t>(rows * columns); }

  /// Where b's copy begins, behind a's.
  static size_t SecondCopy(const GemmShape& shape) {
    const size_t end = sizeof(uint16_t) * Size(shape.m, shape.k);
    return (end + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
  }

  /// a and b are of the plan's type. `bias` is nullptr or of a plan that has one.
  cudaError_t Multiply(
      cudaStream_t stream,
      const Plan& plan,
      const void* a,
      const void* b,
      const float* bias,
      float* c) {
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (bias != nullptr) {
      status = library_.set_product(
          plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
    }
    const float one = 1;
    const float zero = 0;
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = library_.multiply(
          handle_,
          plan.product,
          &one,
          b,
          plan.first,
          a,
          plan.second,
          &zero,
          c,
          plan.result,
          c,
          plan.result,
          &plan.algorithm,
          workspace_->data(),
          plan.workspace_bytes,
          stream);
    }
    return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorLaunchFailure;
  }

  static cublasLtEpilogue_t Epilogue(const GemmShape& shape) {
    if (shape.activation == Activation::kRelu) {
      return shape.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    }
    return shape.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }

  Status Build(const GemmShape& shape, Plan* plan) {
    const auto check = [](const char* what, cublasStatus_t status) {
      return status == CUBLAS_STATUS_SUCCESS ? Status::Ok() : Unusable(what, status);
    };
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
      return check(
          "describing a product",
          library_.set_product(plan->product, attribute, &value, sizeof(value)));
    };
    PS_TRY(check(
        "making a product", library_.make_product(&plan->product, CUBLAS_COMPUTE_32F, CUDA_R_32F)));
    PS_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N));
    PS_TRY(set(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N));
    PS_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, Epilogue(shape)));
    // Rows and columns as cuBLASLt sees them; its leading dimension is our row.
    const auto layout =
        [&](cublasLtMatrixLayout_t* out, cudaDataType_t type, int64_t rows, int64_t columns) {
          return check(
              "describing a matrix",
              library_.make_layout(
                  out, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows));
        };
    const bool is_bf16 = shape.precision == Precision::kBf16;
    const cudaDataType_t factor = is_bf16 ? CUDA_R_16BF : CUDA_R_32F;
    PS_TRY(
        shape.transpose_b ? layout(&plan->first, factor, shape.k, shape.n)
                          : layout(&plan->first, factor, shape.n, shape.k));
    PS_TRY(
        shape.transpose_a ? layout(&plan->second, factor, shape.m, shape.k)
                          : layout(&plan->second, factor, shape.k, shape.m));
    PS_TRY(layout(&plan->result, CUDA_R_32F, shape.n, shape.m));
    // Parameters lie one behind the other, so they begin anywhere that a float may.
    return Choose(is_bf16 ? kCopyAlignment : sizeof(float), plan);
  }

  /// `alignment_bytes` is that of a and b.
  Status Choose(size_t alignment_bytes, Plan* plan) {
    cublasLtMatmulPreference_t preference = nullptr;
    cublasStatus_t status = library_.make_preference(&preference);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      if (status == CUBLAS_STATUS_SUCCESS) {
        status = library_.set_preference(preference, attribute, &value, sizeof(value));
      }
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{workspace_->size()});
    constexpr auto kAlignment = static_cast<uint32_t>(sizeof(float));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(alignment_bytes));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(alignment_bytes));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kAlignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kAlignment);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = library_.choose(
          handle_,
          plan->product,
          plan->first,
          plan->second,
          plan->result,
          plan->result,
          preference,
          1,
          &best,
          &found);
    }
    if (preference != nullptr) {
      static_cast<void>(library_.free_preference(preference));
    }
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
      return Unusable("choosing how to multiply", status);
    }
    plan->algorithm = best.algo;
    plan->workspace_bytes = best.workspaceSize;
    return Status::Ok();
  }

  void Free(Plan* plan) const {
    for (cublasLtMatrixLayout_t layout : {plan->first, plan->second, plan->result}) {
      if (layout != nullptr) {
        static_cast<void>(library_.free_layout(layout));
      }
    }
    if (plan->product != nullptr) {
      static_cast<void>(library_.free_product(plan->product));
    }
  }

  const Library library_;
  const int device_;
  const bool has_bf16_;
  const cublasLtHandle_t handle_;
  const std::unique_ptr<Memory> workspace_;
  std::unique_ptr<Memory> copies_;  // of a and b in bf16
  std::map<GemmShape, Plan> plans_;
  uint64_t prepared_ = 0;
};

}  // namespace

Result<std::unique_ptr<Gemm>> MakeCublasGemm(int device) {
  const Result<Library> library = LoadLibrary();  // which the process has once, however often
  if (!library.ok()) {
    return library.status();
  }
  constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what its manual advises for sm_90
  PS_ASSIGN(
      std::unique_ptr<Memory> workspace,
      AllocateCudaMemory(device, MemoryKind::kDevice, kWorkspaceBytes));
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t status = library->create(&handle); status != CUBLAS_STATUS_SUCCESS) {
    return Unusable("starting it", status);
  }
  int major = 0;
  const cudaError_t error =
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  const bool has_bf16 = error == cudaSuccess && major >= 8;
  return std::unique_ptr<Gemm>(
      std::make_unique<CublasGemm>(*library, device, has_bf16, handle, std::move(workspace)));
}

}  // namespace ps::kernels
