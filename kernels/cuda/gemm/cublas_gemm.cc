// Products by cuBLASLt.
//
// In bf16 it gets rounded copies of factors that are f32 in memory. Their rows are padded to 16
// bytes, as tensor cores want them: so the 50,257 columns of a model's logits are no odd distance
// of rows for two of its head's three products. Devices without tensor cores for bf16 take the
// folder's own kernel.
//
// Two algorithms are kept for a shape: one for operands that all begin at multiples of 16 bytes, as
// those of a network do, and one for any others. Run looks at its operands.

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/gemm/cublas_library.h"
#include "kernels/cuda/gemm/cublas_plan.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/gemm_choices.h"
#include "kernels/cuda/gemm/gemm_trial.h"
#include "kernels/cuda/stream.h"
#include "ps/base/check.h"

namespace ps::kernels {
namespace {

constexpr size_t kAlignment = 16;      // of operands for the fastest algorithms
constexpr size_t kCopyAlignment = 64;  // of where copies begin
constexpr int64_t kCopyPitch = kAlignment / sizeof(uint16_t);

constexpr size_t RoundUp(size_t size, size_t unit) {
  return (size + unit - 1) / unit * unit;
}

bool IsAligned(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) % kAlignment == 0;
}

size_t BytesOf(int64_t values, bool is_bf16) {
  return static_cast<size_t>(values) * (is_bf16 ? sizeof(uint16_t) : sizeof(float));
}

/// For people.
std::string NameOf(const GemmShape& shape) {
  return fmt::format(
      "a product of [{}, {}] and [{}, {}] in {}{}",
      shape.m,
      shape.k,
      shape.k,
      shape.n,
      shape.precision == Precision::kBf16 ? "bf16" : "f32",
      shape.bf16_c ? " with a result in bf16" : "");
}

/// Rounded copies that a product in bf16 makes first, one behind the other.
struct Copies {
  explicit Copies(const GemmShape& shape)
      : of_a(shape.precision == Precision::kBf16 && !shape.bf16_a),
        of_b(shape.precision == Precision::kBf16 && !shape.bf16_b),
        of_bias(shape.bias && shape.bf16_c),
        pitches{
            PitchOf(of_a, shape.pitch_a(), shape.columns_a()),
            PitchOf(of_b, shape.pitch_b(), shape.columns_b())} {
    at_b = of_a ? RoundUp(BytesOf(shape.rows_a() * pitches.a, true), kCopyAlignment) : 0;
    at_bias =
        at_b + (of_b ? RoundUp(BytesOf(shape.rows_b() * pitches.b, true), kCopyAlignment) : 0);
    size_bytes = at_bias + (of_bias ? BytesOf(PitchOf(true, 0, shape.n), true) : 0);
  }

  static int64_t PitchOf(bool is_copied, int64_t pitch, int64_t columns) {
    return is_copied ? (columns + kCopyPitch - 1) / kCopyPitch * kCopyPitch : pitch;
  }

  bool of_a;
  bool of_b;
  bool of_bias;
  CublasPlan::Pitches pitches;
  size_t at_b = 0;
  size_t at_bias = 0;
  size_t size_bytes = 0;
};

class CublasGemm final : public Gemm {
 public:
  CublasGemm(
      const CublasLibrary& library,
      int device,
      bool has_bf16,
      cublasLtHandle_t handle,
      std::unique_ptr<Memory> workspace,
      GemmChoices* choices)
      : library_(library),
        device_(device),
        has_bf16_(has_bf16),
        handle_(handle),
        workspace_(std::move(workspace)),
        choices_(choices) {}

  ~CublasGemm() override {
    plans_.clear();
    static_cast<void>(library_.destroy(handle_));
  }

  bool Takes(Precision precision) const override {
    return precision == Precision::kF32 || has_bf16_;
  }

  Status Prepare(cudaStream_t stream, const GemmShape& shape) override {
    if (IsOurs(shape)) {
      return shape.bf16_a || shape.bf16_b
                 ? Status::Unsupported("factors that are bf16 in memory need tensor cores")
                 : Status::Ok();
    }
    const Copies copies(shape);
    if (copies.size_bytes > (copies_ == nullptr ? 0 : copies_->size())) {
      copies_.reset();
      PS_ASSIGN(copies_, AllocateCudaMemory(device_, MemoryKind::kDevice, copies.size_bytes));
    }
    ++prepared_;
    if (const auto it = plans_.find(shape); it != plans_.end()) {
      it->second.prepared = prepared_;
      return Status::Ok();
    }
    // A job uses few batch sizes: the minibatch, the tail of a lease, the evaluation batch. Those
    // of the pass that is being prepared are the newest.
    constexpr size_t kPlansMax = 512;
    if (plans_.size() == kPlansMax) {
      plans_.erase(std::ranges::min_element(
          plans_, {}, [](const auto& entry) { return entry.second.prepared; }));
    }
    PS_ASSIGN(CublasPlan plan, CublasPlan::Make(&library_, shape, copies.pitches));
    Entry entry{std::move(plan), {}, std::nullopt, Status::Ok(), prepared_};
    PS_ASSIGN(entry.aligned, Choose(stream, shape, entry.plan, true));
    if (Result<GemmAlgorithm> any = Choose(stream, shape, entry.plan, false); any.ok()) {
      entry.any = *any;
    } else {
      entry.why_not_any = any.status();
    }
    plans_.emplace(shape, std::move(entry));
    return Status::Ok();
  }

  Status Run(
      cudaStream_t stream,
      const GemmShape& shape,
      const void* a,
      const void* b,
      const float* bias,
      void* c,
      bool a_as_before) override {
    if (IsOurs(shape)) {
      return Worked(TiledGemm(
          stream, shape, static_cast<const float*>(a), static_cast<const float*>(b), bias, c));
    }
    const auto it = plans_.find(shape);
    PS_CHECK(it != plans_.end()) << "a product was not prepared";
    GemmOperands operands{a, b, shape.bias ? bias : nullptr, c};
    PS_TRY(MakeCopies(stream, shape, a_as_before, &operands));
    const Entry& entry = it->second;
    const bool is_aligned = IsAligned(operands.a) && IsAligned(operands.b) &&
                            IsAligned(operands.bias) && IsAligned(operands.c);
    if (!is_aligned && !entry.any) {
      return entry.why_not_any;
    }
    const cublasStatus_t status = entry.plan.Multiply(
        handle_, stream, is_aligned ? entry.aligned : *entry.any, operands, Workspace());
    return status == CUBLAS_STATUS_SUCCESS ? Status::Ok() : CublasFailed(NameOf(shape), status);
  }

 private:
  /// How one shape is multiplied.
  struct Entry {
    CublasPlan plan;
    GemmAlgorithm aligned;             // for operands that all are
    std::optional<GemmAlgorithm> any;  // for others, of which a network has none
    Status why_not_any;
    uint64_t prepared = 0;  // grows with each Prepare of a product
  };

  static Status Worked(cudaError_t error) {
    return error == cudaSuccess ? Status::Ok() : DeviceFailed("working", error);
  }

  /// Products that the folder's own kernel makes. cuBLASLt has no empty matrices.
  bool IsOurs(const GemmShape& shape) const {
    return shape.m == 0 || shape.n == 0 || shape.k == 0 || !Takes(shape.precision);
  }

  std::span<std::byte> Workspace() const { return {workspace_->data(), workspace_->size()}; }

  /// What has to be rounded is, and its copy takes its place. That of a is the first, so it is
  /// where it was in any other product with the same a.
  Status MakeCopies(
      cudaStream_t stream, const GemmShape& shape, bool a_as_before, GemmOperands* operands) const {
    const Copies copies(shape);
    const auto copy = [&](bool is_wanted,
                          size_t at,
                          int64_t rows,
                          int64_t columns,
                          int64_t from_pitch,
                          int64_t pitch,
                          const void** operand) {
      if (!is_wanted) {
        return Status::Ok();
      }
      auto* const to = reinterpret_cast<uint16_t*>(copies_->data() + at);
      const auto* const from = static_cast<const float*>(std::exchange(*operand, to));
      return Worked(RoundRows(stream, from, rows, columns, from_pitch, to, pitch));
    };
    if (copies.of_a && a_as_before) {
      operands->a = copies_->data();
    }
    PS_TRY(copy(
        copies.of_a && !a_as_before,
        0,
        shape.rows_a(),
        shape.columns_a(),
        shape.pitch_a(),
        copies.pitches.a,
        &operands->a));
    PS_TRY(copy(
        copies.of_b,
        copies.at_b,
        shape.rows_b(),
        shape.columns_b(),
        shape.pitch_b(),
        copies.pitches.b,
        &operands->b));
    return copy(
        copies.of_bias,
        copies.at_bias,
        1,
        shape.n,
        shape.n,
        Copies::PitchOf(true, 0, shape.n),
        &operands->bias);
  }

  /// What operands of a kind take from now on. Only aligned ones are worth the time of a trial.
  Result<GemmAlgorithm> Choose(
      cudaStream_t stream, const GemmShape& shape, const CublasPlan& plan, bool is_aligned) {
    if (const auto taken = choices_->Find(shape, is_aligned)) {
      return *taken;
    }
    const bool has_bf16 = shape.bf16_a || shape.bf16_b || shape.bf16_c;
    const size_t least = is_aligned ? kAlignment : has_bf16 ? sizeof(uint16_t) : sizeof(float);
    const Copies copies(shape);
    Result<std::vector<GemmAlgorithm>> proposals = plan.Propose(
        handle_,
        {.a = copies.of_a ? kAlignment : least,
         .b = copies.of_b ? kAlignment : least,
         .bias = copies.of_bias ? kAlignment : least,
         .c = least},
        workspace_->size());
    if (!proposals.ok()) {
      return std::move(proposals).status().Annotate(NameOf(shape));
    }
    size_t best = 0;
    if (is_aligned && choices_->times() && proposals->size() > 1) {
      PS_ASSIGN(best, Fastest(stream, shape, plan, *proposals));
    }
    return choices_->Take(shape, is_aligned, (*proposals)[best]);
  }

  /// The first where there is no memory for a trial.
  Result<size_t> Fastest(
      cudaStream_t stream,
      const GemmShape& shape,
      const CublasPlan& plan,
      const std::vector<GemmAlgorithm>& algorithms) const {
    const CublasPlan::Pitches pitches = Copies(shape).pitches;
    const bool is_bf16 = shape.precision == Precision::kBf16;
    const size_t at_b = RoundUp(BytesOf(shape.rows_a() * pitches.a, is_bf16), kCopyAlignment);
    const size_t at_bias =
        at_b + RoundUp(BytesOf(shape.rows_b() * pitches.b, is_bf16), kCopyAlignment);
    const size_t at_c = at_bias + RoundUp(BytesOf(shape.n, shape.bf16_c), kCopyAlignment);
    const size_t end =
        at_c + RoundUp(BytesOf(shape.m * shape.pitch_c(), shape.bf16_c), kCopyAlignment);
    TrialMemory memory;
    PS_TRY(memory.Take(end));
    if (memory.data() == nullptr) {
      return size_t{0};
    }
    // Numbers, of either type, since what is multiplied decides how much power it takes.
    constexpr uint32_t kOnes = 0x3f803f80;  // nearly 1 in f32, and twice a 1 in bf16
    PS_TRY(Worked(FillValues(
        stream,
        std::bit_cast<float>(kOnes),
        reinterpret_cast<float*>(memory.data()),
        static_cast<int64_t>(end / sizeof(float)))));
    const GemmOperands operands{
        memory.data(),
        memory.data() + at_b,
        shape.bias ? memory.data() + at_bias : nullptr,
        memory.data() + at_c};
    return FastestOf(stream, algorithms, [&](const GemmAlgorithm& algorithm) {
      return plan.Multiply(handle_, stream, algorithm, operands, Workspace()) ==
             CUBLAS_STATUS_SUCCESS;
    });
  }

  const CublasLibrary library_;
  const int device_;
  const bool has_bf16_;
  const cublasLtHandle_t handle_;
  const std::unique_ptr<Memory> workspace_;
  GemmChoices* const choices_;
  std::unique_ptr<Memory> copies_;
  std::map<GemmShape, Entry> plans_;
  uint64_t prepared_ = 0;
};

}  // namespace

Result<std::unique_ptr<Gemm>> MakeCublasGemm(int device, GemmChoices* choices) {
  const Result<CublasLibrary> library = LoadCublas();
  if (!library.ok()) {
    return library.status();
  }
  constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what its manual advises for sm_90
  PS_ASSIGN(
      std::unique_ptr<Memory> workspace,
      AllocateCudaMemory(device, MemoryKind::kDevice, kWorkspaceBytes));
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t status = library->create(&handle); status != CUBLAS_STATUS_SUCCESS) {
    return CublasFailed("starting it", status);
  }
  int major = 0;
  const cudaError_t error =
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  const bool has_bf16 = error == cudaSuccess && major >= 8;
  return std::unique_ptr<Gemm>(std::make_unique<CublasGemm>(
      *library, device, has_bf16, handle, std::move(workspace), choices));
}

}  // namespace ps::kernels
