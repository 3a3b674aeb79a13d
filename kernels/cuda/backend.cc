#include "kernels/cuda/backend.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/cuda/devices.h"
#include "kernels/cuda/gemm/gemm_choices.h"
#include "kernels/cuda/stream.h"

namespace ps::kernels {
namespace {

// What CMake compiled for, lowest first: "75-real,80-real,90". With "-real" machine code alone,
// which runs on devices of the same major number and no lower minor one; else code that newer
// devices translate, too.
constexpr std::string_view kTargets = PS_CUDA_TARGETS;

/// Whether there is code for such a device; appends to `built` what there is code for.
bool IsBuiltFor(int major, int minor, std::string* built) {
  bool is_built = false;
  for (size_t at = 0; at < kTargets.size();) {
    const size_t end = std::min(kTargets.find(',', at), kTargets.size());
    const std::string_view target = kTargets.substr(at, end - at);
    at = end + 1;
    int number = 0;
    static_cast<void>(std::from_chars(target.data(), target.data() + target.size(), number));
    const bool is_translated = !target.ends_with("-real");
    const bool is_alike = number / 10 == major && number % 10 <= minor;
    is_built = is_built || is_alike || (is_translated && number <= 10 * major + minor);
    *built += fmt::format(
        "{}{}.{}{}",
        built->empty() ? "" : ", ",
        number / 10,
        number % 10,
        is_translated ? " and newer" : "");
  }
  return is_built;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(DeviceInfo info, GemmKind gemm)
      : info_(std::move(info)), gemm_(gemm), choices_(gemm == GemmKind::kCublasTimed) {}

  std::string Name() const override {
    return fmt::format(
        "cuda:{} ({}, compute capability {}.{}, products by {})",
        info_.index,
        info_.name,
        info_.compute_major,
        info_.compute_minor,
        gemm_ == GemmKind::kOwn      ? "own kernels"
        : gemm_ == GemmKind::kCublas ? "cuBLASLt"
                                     : "cuBLASLt, timed");
  }

  bool is_host_memory() const override { return false; }

  void Reach(const Backend& other) override {
    ReachCudaDevice(info_.index, static_cast<const CudaBackend&>(other).info_.index);
  }

  Result<std::unique_ptr<Memory>> AllocateDevice(size_t size_bytes) override {
    return AllocateCudaMemory(info_.index, MemoryKind::kDevice, size_bytes);
  }

  Result<std::unique_ptr<Memory>> AllocatePinned(size_t size_bytes) override {
    return AllocateCudaMemory(info_.index, MemoryKind::kPinned, size_bytes);
  }

  Result<std::unique_ptr<Stream>> MakeStream() override {
    PS_ASSIGN(
        auto stream, CudaStream::Make(info_.index, gemm_ == GemmKind::kOwn ? nullptr : &choices_));
    return std::unique_ptr<Stream>(std::move(stream));
  }

  Result<std::unique_ptr<Stream>> MakeCopyStream() override {
    PS_ASSIGN(auto stream, CudaStream::MakeForCopies(info_.index));
    return std::unique_ptr<Stream>(std::move(stream));
  }

  Result<std::unique_ptr<Event>> MakeEvent() override {
    PS_ASSIGN(auto event, CudaEvent::Make(info_.index));
    return std::unique_ptr<Event>(std::move(event));
  }

 private:
  const DeviceInfo info_;
  const GemmKind gemm_;
  GemmChoices choices_;  // of all its streams
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeCudaBackend(int device, GemmKind gemm) {
  PS_ASSIGN(const std::vector<DeviceInfo> devices, ListCudaDevices());
  if (device < 0 || static_cast<size_t>(device) >= devices.size()) {
    return Status::InvalidArgument(fmt::format(
        "there is no cuda:{}; this machine has cuda:0 to cuda:{}", device, devices.size() - 1));
  }
  const DeviceInfo& info = devices[static_cast<size_t>(device)];
  if (std::string built; !IsBuiltFor(info.compute_major, info.compute_minor, &built)) {
    return Status::Unsupported(fmt::format(
        "cuda:{} ({}) has compute capability {}.{}; this build has code for {}",
        device,
        info.name,
        info.compute_major,
        info.compute_minor,
        built));
  }
  auto backend = std::make_unique<CudaBackend>(info, gemm);
  // What a stream needs is missing now or never.
  PS_TRY(backend->MakeStream().status());
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace ps::kernels
