#include "provisioner/unseen/device_figures.h"

#include <algorithm>

namespace ps::provisioner {
namespace {

struct Row {
  std::string_view device;
  DeviceFigures figures;
};

// NVIDIA's datasheets: f32 outside tensor cores. Boards of two chips (K80, M60) count as two.
constexpr Row kRows[] = {
    {"A10", {31.2, 600}},
    {"A100", {19.5, 1555}},
    {"A100-SXM4-40GB", {19.5, 1555}},
    {"A100-SXM4-80GB", {19.5, 2039}},
    {"A100-PCIe-80GB", {19.5, 1935}},
    {"A10G", {35, 600}},
    {"H100", {67, 3350}},
    {"H100-SXM5-80GB", {67, 3350}},
    {"H100-NVL-94GB", {60, 3900}},
    {"H200", {67, 4800}},
    {"H200-SXM5-141GB", {67, 4800}},
    {"K80", {4.37, 240}},
    {"L4", {30.3, 300}},
    {"L40S", {91.6, 864}},
    {"M60", {4.82, 160}},
    {"P100", {9.3, 732}},
    {"P100-PCIe-16GB", {9.3, 732}},
    {"P100-SXM2-16GB", {10.6, 732}},
    {"P4", {5.5, 192}},
    {"T4", {8.1, 320}},
    {"V100", {15.7, 900}},
    {"V100-PCIe-16GB", {14, 900}},
    {"V100-SXM2-16GB", {15.7, 900}},
    {"V100-SXM2-32GB", {15.7, 900}}};

// Half a core of a server processor at 2.5 GHz with 32 operations a cycle, and its part of six
// channels of memory for 48 vCPUs.
constexpr double kTflopsOfVcpu = 0.04;
constexpr double kGbyteOfVcpu = 2.7;

}  // namespace

std::optional<DeviceFigures> FiguresOf(std::string_view device, int vcpus) {
  if (device == "cpu") {
    const double count = std::max(1, vcpus);
    return DeviceFigures{kTflopsOfVcpu * count, kGbyteOfVcpu * count, true};
  }
  const auto* const row = std::ranges::find(kRows, device, &Row::device);
  return row == std::end(kRows) ? std::nullopt : std::optional(row->figures);
}

std::vector<std::string> KnownDevices() {
  std::vector<std::string> names;
  for (const Row& row : kRows) {
    if (row.device.find('-') == std::string_view::npos) {
      names.emplace_back(row.device);
    }
  }
  names.emplace_back("cpu");
  return names;
}

}  // namespace ps::provisioner
