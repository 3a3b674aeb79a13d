#include "ps/proto/job/device_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "ps/base/text.h"
#include "ps/proto/limits.h"

namespace ps::proto {
namespace {

constexpr std::string_view kCudaPrefix = "cuda:";
constexpr uint32_t kDeviceNumberMax = 1023;

/// Numbers between commas; nothing where one is none, or out of range.
std::optional<std::vector<uint32_t>> ReadNumbers(std::string_view text) {
  std::vector<uint32_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    uint32_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number > kDeviceNumberMax) {
      return {};
    }
    numbers.push_back(number);
    if (next == end) {
      return numbers;
    }
    if (*next != ',') {
      return {};
    }
    at = next + 1;
  }
}

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
  std::optional<std::vector<uint32_t>> numbers;
  if (text.starts_with(kCudaPrefix) && text.size() <= kDeviceBytesMax) {
    numbers = ReadNumbers(text.substr(kCudaPrefix.size()));
  }
  if (!numbers) {
    return Status::InvalidArgument(fmt::format(
        "is \"{}\"; allowed: cpu, auto, cuda, cuda:0, or several devices for one worker as in "
        "cuda:0,1, with numbers from 0 to {} in at most {} bytes",
        shown,
        kDeviceNumberMax,
        kDeviceBytesMax));
  }
  if (numbers->size() > kDevicesOfAWorkerMax) {
    return Status::InvalidArgument(fmt::format(
        "is \"{}\", which are {} devices; allowed: at most {} for one worker",
        shown,
        numbers->size(),
        kDevicesOfAWorkerMax));
  }
  std::vector<uint32_t> sorted = *numbers;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    return Status::InvalidArgument(fmt::format(
        "is \"{}\", which names device {} twice; allowed: each number once", shown, *twice));
  }
  return DeviceChoice{DeviceKind::kCuda, *std::move(numbers)};
}

}  // namespace ps::proto
