#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/status.h"

namespace ps::worker {

/// Brings the gradients of a step from the device to the host, each as soon as it is final, while
/// the device goes on with earlier layers. Thread: one at a time.
class GradientReturn {
 public:
  using Ready = std::function<void(uint32_t tensor)>;

  /// `compute` makes the gradients, `copies` brings them; both outlive this. Errors: the backend's.
  static Result<GradientReturn> Make(
      kernels::Backend* backend,
      kernels::Stream* compute,
      kernels::Stream* copies,
      size_t tensor_count);

  /// A step begins. `ready` outlives it, and so does what the spans are of.
  void Begin(kernels::ConstSpans device, kernels::Spans host, const Ready* ready);
  /// The work that makes these tensors final is in the compute stream. Each tensor once a step.
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

  GradientReturn(kernels::Stream* compute, kernels::Stream* copies);
  void Announce(const Departure& departure) const;

  kernels::Stream* compute_;
  kernels::Stream* copies_;
  std::vector<Departure> departures_;  // as many as there can be in a step
  // Of the step under way.
  kernels::ConstSpans device_;
  kernels::Spans host_;
  const Ready* ready_ = nullptr;
  size_t sent_ = 0;
  size_t announced_ = 0;
};

}  // namespace ps::worker
