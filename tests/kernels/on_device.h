#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "tests/kernels/op_runner.h"

namespace ps::kernels::test {

/// Any values in memory of the device under test, uploaded when made.
template <typename T>
class OnDevice {
 public:
  OnDevice(Stream* stream, const std::vector<T>& values, size_t offset = 0)
      : stream_(stream),
        size_(values.size()),
        offset_(offset),
        pinned_(BackendUnderTest()->AllocatePinned(size_ * sizeof(T)).value()),
        device_(BackendUnderTest()->AllocateDevice((size_ + offset) * sizeof(T)).value()) {
    if (size_ > 0) {
      std::memcpy(pinned_->data(), values.data(), size_ * sizeof(T));
    }
    stream->Upload(pinned_->data(), data(), size_ * sizeof(T));
  }

  T* data() const { return reinterpret_cast<T*>(device_->data()) + offset_; }

  std::vector<T> Values() const {
    stream_->Download(data(), pinned_->data(), size_ * sizeof(T));
    const Status status = stream_->Synchronize();
    EXPECT_TRUE(status.ok()) << status;
    std::vector<T> values(size_);
    if (size_ > 0) {
      std::memcpy(values.data(), pinned_->data(), size_ * sizeof(T));
    }
    return values;
  }

 private:
  Stream* const stream_;
  const size_t size_;
  const size_t offset_;
  const std::unique_ptr<Memory> pinned_;
  const std::unique_ptr<Memory> device_;
};

}  // namespace ps::kernels::test
