#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ps::provisioner {

/// What the maker says of one device; of a host without one, of its processors together.
struct DeviceFigures {
  double tflops = 0;          // f32, peak
  double gbyte_per_s = 0;     // of its memory
  bool is_processor = false;  // figures are nominal, by the vCPU

  friend bool operator==(const DeviceFigures&, const DeviceFigures&) = default;
};

/// By the catalog's name of a device ("T4", "V100-SXM2-16GB"), and "cpu" with so many vCPUs. None:
/// not known.
std::optional<DeviceFigures> FiguresOf(std::string_view device, int vcpus);

/// "A10", "A100", ..., "cpu": what FiguresOf knows, of each family its shortest name.
std::vector<std::string> KnownDevices();

}  // namespace ps::provisioner
