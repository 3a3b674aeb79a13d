#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/tensor_spec.h"

namespace ps::worker {

/// Has a device repeat the work of a training step as a few graphs instead of hundreds of kernels,
/// each of which costs the host a call. Thread: one at a time.
class StepRecorder {
 public:
  /// Steps of one kind put the same work into the stream, whatever the values.
  struct Kind {
    int64_t n = 0;
    float clip_norm = 0;
    bool bf16_gradients = false;

    friend bool operator==(const Kind&, const Kind&) = default;
  };

  /// The work that makes these tensors' gradients final is in the stream.
  using OnFinal = std::function<void(uint32_t first_tensor, uint32_t count)>;

  /// The stream and the tensors outlive it.
  StepRecorder(kernels::Stream* stream, const std::vector<TensorSpec>* tensors)
      : stream_(stream), tensors_(tensors) {}

  /// The first step of a kind calls `work`, which puts work into the stream and says what is final.
  /// The second has that recorded, and those after it repeat the recording. `leave` is told of the
  /// same tensors, of neighbours at once and perhaps somewhat later; what it does is not recorded.
  /// Requires: while it is recorded, `work` takes no memory and waits for nothing.
  void Run(const Kind& kind, const std::function<void(const OnFinal&)>& work, const OnFinal& leave);

 private:
  struct Leaving {
    uint32_t first_tensor = 0;
    uint32_t count = 0;
  };

  /// Work up to where gradients leave.
  struct Part {
    std::unique_ptr<kernels::Recording> recording;
    std::vector<Leaving> leaving;
  };

  struct Known {
    Kind kind;
    std::vector<Part> parts;  // none: not recorded
  };

  bool CanReplay(const Known& known) const;
  void Record(Known* known, const std::function<void(const OnFinal&)>& work, const OnFinal& leave);
  void Finish(Part part, Known* known, const OnFinal& leave);

  kernels::Stream* stream_;
  const std::vector<TensorSpec>* tensors_;
  std::vector<Known> known_;  // the newest is last
};

}  // namespace ps::worker
