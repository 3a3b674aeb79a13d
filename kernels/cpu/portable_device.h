#pragma once

#include <cstdint>

#include "kernels/cpu/workspace.h"
#include "kernels/portable_op.h"
#include "ps/base/buffer.h"
#include "ps/base/status.h"

namespace ps::kernels {

/// What kernels/portable_op.h asks of a device, by loops on the calling thread. `workspace`
/// outlives it.
class CpuDevice {
 public:
  class Floats {
   public:
    float* floats() { return buffer_.floats().data(); }

   private:
    friend class CpuDevice;
    Buffer buffer_;
  };

  explicit CpuDevice(Workspace* workspace) : workspace_(workspace) {}

  Status Grow(int64_t floats, Floats* memory) const {
    const size_t size_bytes = static_cast<size_t>(floats) * sizeof(float);
    if (memory->buffer_.size() < size_bytes) {
      memory->buffer_ = Buffer(size_bytes);
    }
    return Status::Ok();
  }

  Status ReserveScratch(int64_t floats) const {
    workspace_->ReserveCopies(static_cast<size_t>(floats) * sizeof(float));
    return Status::Ok();
  }

  float* scratch() const { return reinterpret_cast<float*>(workspace_->copies()); }

  template <typename Function>
  void ForEach(int64_t n, const Function function) const {
    for (int64_t i = 0; i < n; ++i) {
      function(i);
    }
  }

  template <typename Function>
  void ForChannels(const ChannelShape& shape, const Function function) const {
    int64_t i = 0;
    for (int64_t first_row = 0; first_row < shape.n * shape.channels; first_row += shape.channels) {
      for (int64_t position = 0; position < shape.positions; ++position) {
        for (int64_t c = 0; c < shape.channels; ++c) {
          function(i + c, first_row + c, c);
        }
        i += shape.channels;
      }
    }
  }

  template <int each, typename Function>
  void SumPositions(const ChannelShape& shape, const Function function, float* sums) const {
    const int64_t rows = shape.n * shape.channels;
    for (int64_t i = 0; i < each * rows; ++i) {
      sums[i] = 0;
    }
    ForChannels(shape, [function, rows, sums](int64_t i, int64_t row, int64_t c) {
      float values[each];
      function(i, row, c, values);
      for (int k = 0; k < each; ++k) {
        sums[k * rows + row] += values[k];
      }
    });
  }

 private:
  Workspace* workspace_;
};

}  // namespace ps::kernels
