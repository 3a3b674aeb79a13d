#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::proto {

enum class DeviceKind : uint8_t {
  kCpu,   // "cpu"
  kCuda,  // "cuda", "cuda:1", "cuda:0,1"
  kAuto,  // "auto": a CUDA device where one can be used, else the CPU
};

inline constexpr size_t kDevicesOfAWorkerMax = 16;

/// What a worker is to compute on, as a job file or a flag says it.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::kCpu;
  std::vector<uint32_t> numbers = {};  // kCuda, each once; none: follows from the worker's seat

  friend bool operator==(const DeviceChoice&, const DeviceChoice&) = default;
};

/// Errors: kInvalidArgument, whose text goes on behind the name of the field or flag:
/// "is \"gpu\"; allowed: cpu, auto, cuda, or cuda:0,1 ...".
Result<DeviceChoice> ParseDevice(std::string_view text);

}  // namespace ps::proto
