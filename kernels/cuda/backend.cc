#include "kernels/cuda/backend.h"

#include <fmt/core.h>

#include <utility>

#include "kernels/cuda/devices.h"
#include "kernels/cuda/stream.h"

namespace ps::kernels {
namespace {

// What is compiled runs from this compute capability on.
constexpr int kComputeMajorMin = 7;
constexpr int kComputeMinorMin = 5;

class CudaBackend final : public Backend {
 public:
  CudaBackend(DeviceInfo info, GemmKind gemm) : info_(std::move(info)), gemm_(gemm) {}

  std::string Name() const override {
    return fmt::format(
        "cuda:{} ({}, compute capability {}.{}, products by {})",
        info_.index,
        info_.name,
        info_.compute_major,
        info_.compute_minor,
        gemm_ == GemmKind::kCublas ? "cuBLASLt" : "own kernels");
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
    PS_ASSIGN(auto stream, CudaStream::Make(info_.index, gemm_));
    return std::unique_ptr<Stream>(std::move(stream));
  }

  Result<std::unique_ptr<Event>> MakeEvent() override {
    PS_ASSIGN(auto event, CudaEvent::Make(info_.index));
    return std::unique_ptr<Event>(std::move(event));
  }

 private:
  const DeviceInfo info_;
  const GemmKind gemm_;
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeCudaBackend(int device, GemmKind gemm) {
  PS_ASSIGN(const std::vector<DeviceInfo> devices, ListCudaDevices());
  if (device < 0 || static_cast<size_t>(device) >= devices.size()) {
    return Status::InvalidArgument(fmt::format(
        "there is no cuda:{}; this machine has cuda:0 to cuda:{}", device, devices.size() - 1));
  }
  const DeviceInfo& info = devices[static_cast<size_t>(device)];
  if (std::pair(info.compute_major, info.compute_minor) <
      std::pair(kComputeMajorMin, kComputeMinorMin)) {
    return Status::Unsupported(fmt::format(
        "cuda:{} ({}) has compute capability {}.{}; this build needs {}.{} or newer",
        device,
        info.name,
        info.compute_major,
        info.compute_minor,
        kComputeMajorMin,
        kComputeMinorMin));
  }
  auto backend = std::make_unique<CudaBackend>(info, gemm);
  // What a stream needs is missing now or never.
  PS_TRY(backend->MakeStream().status());
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace ps::kernels
