#include "ps/proto/device_choice.h"

#include <fmt/core.h>

#include <charconv>

#include "ps/base/text.h"
#include "ps/proto/limits.h"

namespace ps::proto {
namespace {

constexpr std::string_view kCudaPrefix = "cuda:";
constexpr uint32_t kDeviceNumberMax = 1023;

}  // namespace

Result<DeviceChoice> ParseDevice(std::string_view text) {
  if (text == "cpu") {
    return DeviceChoice{DeviceKind::kCpu};
  }
  if (text == "auto") {
    return DeviceChoice{DeviceKind::kAuto};
  }
  if (text == "cuda") {
    return DeviceChoice{DeviceKind::kCuda};
  }
  const std::string shown = Printable(Clip(text, kDeviceBytesMax));
  if (text.starts_with(kCudaPrefix)) {
    const std::string_view digits = text.substr(kCudaPrefix.size());
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool is_all = end == digits.data() + digits.size();
    if (error == std::errc() && is_all && number <= kDeviceNumberMax) {
      return DeviceChoice{DeviceKind::kCuda, number};
    }
    if (error == std::errc() && *end == ',') {
      return Status::InvalidArgument(fmt::format(
          "is \"{}\", but a worker computes on one device; allowed: a worker for each, as with "
          "\"count\": 2 and \"device\": \"cuda\"",
          shown));
    }
  }
  return Status::InvalidArgument(fmt::format(
      "is \"{}\"; allowed: cpu, auto, cuda, or cuda:N with the device's number from 0 to {}",
      shown,
      kDeviceNumberMax));
}

}  // namespace ps::proto
