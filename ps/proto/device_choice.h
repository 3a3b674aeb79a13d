#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ps/base/status.h"

namespace ps::proto {

enum class DeviceKind : uint8_t {
  kCpu,   // "cpu"
  kCuda,  // "cuda", "cuda:1"
  kAuto,  // "auto": a CUDA device where one can be used, else the CPU
};

/// What a worker is to compute on, as a job file or a flag says it.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::kCpu;
  std::optional<uint32_t> number = {};  // kCuda; nothing: follows from the worker's seat

  friend bool operator==(const DeviceChoice&, const DeviceChoice&) = default;
};

/// Errors: kInvalidArgument, whose text goes on behind the name of the field or flag:
/// "is \"gpu\"; allowed: cpu, auto, cuda, or cuda:N ...".
Result<DeviceChoice> ParseDevice(std::string_view text);

}  // namespace ps::proto
