#include "worker/device.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/devices.h"

namespace ps::worker {
namespace {

Device Cpu(std::string note) {
  return {{kernels::MakeCpuBackend()}, "cpu", std::move(note)};
}

/// All devices multiply in the same way. Errors: as kernels::MakeCudaBackend.
Status OpenAll(const std::vector<uint32_t>& numbers, kernels::GemmKind gemm, Device* device) {
  device->backends.clear();
  for (const uint32_t number : numbers) {
    PS_ASSIGN(auto backend, kernels::MakeCudaBackend(static_cast<int>(number), gemm));
    device->backends.push_back(std::move(backend));
  }
  return Status::Ok();
}

Result<Device> OpenCuda(const proto::DeviceChoice& choice, WorkerId seat, Products how) {
  PS_ASSIGN(const std::vector<kernels::DeviceInfo> devices, kernels::ListCudaDevices());
  std::vector<uint32_t> numbers = choice.numbers;
  if (numbers.empty()) {
    numbers = {seat.value % static_cast<uint32_t>(devices.size())};
  }
  Device device;
  device.name = fmt::format("cuda:{}", fmt::join(numbers, ","));
  const auto library =
      how == Products::kFastest ? kernels::GemmKind::kCublasTimed : kernels::GemmKind::kCublas;
  Status opened = OpenAll(numbers, library, &device);
  if (opened.code() == StatusCode::kUnsupported) {
    device.note = fmt::format("{}; slower kernels of our own multiply", opened.message());
    opened = OpenAll(numbers, kernels::GemmKind::kOwn, &device);
  }
  PS_TRY(opened);
  return device;
}

}  // namespace

Result<Device> OpenDevice(const proto::DeviceChoice& choice, WorkerId seat, Products how) {
  if (choice.kind == proto::DeviceKind::kCpu) {
    return Cpu("");
  }
  Result<Device> cuda = OpenCuda(choice, seat, how);
  if (cuda.ok()) {
    return cuda;
  }
  const Status& why = cuda.status();
  if (choice.kind == proto::DeviceKind::kAuto) {
    return Cpu(fmt::format("{}; the CPU computes", why.message()));
  }
  return Status(
      why.code(),
      fmt::format(
          "no CUDA device for this worker: {}; set \"device\": \"auto\" or \"cpu\" in its group of "
          "the job file, or give ps_worker --device",
          why.message()));
}

}  // namespace ps::worker
