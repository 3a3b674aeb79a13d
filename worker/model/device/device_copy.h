#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kernels/backend.h"
#include "ps/base/status.h"

namespace ps::worker {

/// Device memory for a caller's host memory; that memory itself where the two are one.
class DeviceCopy {
 public:
  /// At least so large. Errors: kInvalidArgument when memory is short.
  Status Reserve(kernels::Backend* backend, size_t size_bytes) {
    if (!backend->is_host_memory() && (memory_ == nullptr || memory_->size() < size_bytes)) {
      memory_.reset();
      PS_ASSIGN(memory_, backend->AllocateDevice(size_bytes));
    }
    return Status::Ok();
  }

  /// What the device reads; `host` goes there. Requires: reserved.
  template <typename T>
  const T* Upload(kernels::Stream* stream, std::span<const T> host) {
    if (memory_ == nullptr) {
      return host.data();
    }
    stream->Upload(host.data(), memory_->data(), host.size_bytes());
    return reinterpret_cast<const T*>(memory_->data());
  }

 private:
  std::unique_ptr<kernels::Memory> memory_;
};

}  // namespace ps::worker
