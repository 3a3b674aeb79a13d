#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "worker/model/device/device_encoder.h"

namespace ps::worker {

/// Brings the gradients of a step from the device to the host, each as soon as it is final, while
/// the device goes on with earlier layers. Thread: one at a time.
class GradientReturn {
 public:
  using Ready = std::function<void(uint32_t tensor)>;

  /// `backend` and `tensors` outlive this, as do `compute`, which makes the gradients, and
  /// `copies`, which brings them. Errors: the backend's.
  static Result<GradientReturn> Make(
      kernels::Backend* backend,
      kernels::Stream* compute,
      kernels::Stream* copies,
      const std::vector<TensorSpec>* tensors);

  /// A step begins. `ready` outlives it, and so does what the spans are of. With `as_bf16` the
  /// gradients that an optimizer gets are rounded to bfloat16, travel in half the bytes, and are
  /// back to back in the first half of their `host` span. Errors: kInvalidArgument when memory for
  /// that is short.
  Status Begin(kernels::ConstSpans device, kernels::Spans host, bool as_bf16, const Ready* ready);
  /// The same with the gradients of the tensors that `encoder` Encodes as it says; it outlives the
  /// step.
  void BeginEncoded(
      kernels::ConstSpans device, kernels::Spans host, DeviceEncoder* encoder, const Ready* ready);
  /// The work that makes these tensors final is in the compute stream; puts there what has to be
  /// done before they are sent. Each tensor once a step.
  void Pack(uint32_t first_tensor, uint32_t count);
  /// They have been packed. Each tensor once a step.
  void Send(uint32_t first_tensor, uint32_t count);
  /// Waits until all are here. Errors: kUnavailable when the device is lost.
  Status Finish();

 private:
  /// Tensors that leave together.
  struct Departure {
    uint32_t first_tensor = 0;
    uint32_t count = 0;
    std::unique_ptr<kernels::Event> final;  // the compute stream has made them
    std::unique_ptr<kernels::Event> here;   // they have been copied
  };

  GradientReturn(
      kernels::Backend* backend,
      kernels::Stream* compute,
      kernels::Stream* copies,
      const std::vector<TensorSpec>* tensors);
  Status ReservePacked();
  bool IsPacked(uint32_t tensor) const;
  uint16_t* PackedOf(uint32_t tensor) const;
  void Announce(const Departure& departure) const;

  kernels::Backend* backend_;
  kernels::Stream* compute_;
  kernels::Stream* copies_;
  const std::vector<TensorSpec>* tensors_;
  std::vector<Departure> departures_;  // as many as there can be in a step
  // Gradients as bfloat16, when they have been asked for: each tensor at its offset.
  std::vector<size_t> offsets_;  // in values
  std::unique_ptr<kernels::Memory> packed_;
  // The step under way.
  kernels::ConstSpans device_;
  kernels::Spans host_;
  bool as_bf16_ = false;
  DeviceEncoder* encoder_ = nullptr;
  const Ready* ready_ = nullptr;
  size_t sent_ = 0;
  size_t announced_ = 0;
};

}  // namespace ps::worker
