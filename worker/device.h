#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/proto/job/device_choice.h"

namespace ps::worker {

/// What a worker computes on.
struct Device {
  std::vector<std::shared_ptr<kernels::Backend>> backends;  // of one kind, at least one
  std::string name;                                         // "cpu", "cuda:1", "cuda:0,1"
  std::string note;  // why it is not what could have been hoped for; empty: it is
};

/// How a device's products of matrices are made where there is a choice.
enum class Products : uint8_t {
  kSameBits,  // in every process that has the same type of device and libraries
  kFastest,   // as measured in this process: last bits may differ between processes and devices
};

/// Finds the device. `seat` chooses among several where the choice names none.
/// Errors: kUnsupported with the reason and what to do, when a CUDA device is asked for and none
/// can be used; kInvalidArgument when there is none of such a number.
using DeviceOpener =
    std::function<Result<Device>(const proto::DeviceChoice& choice, WorkerId seat, Products how)>;

/// This machine's devices.
Result<Device> OpenDevice(const proto::DeviceChoice& choice, WorkerId seat, Products how);

}  // namespace ps::worker
