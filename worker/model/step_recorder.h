#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/tensor_spec.h"

namespace ps::worker {

/// Has a device repeat the work of a piece of a minibatch as a few graphs instead of hundreds of
/// kernels, each of which costs the host a call. Thread: one at a time.
class StepRecorder {
 public:
  /// Pieces of one kind put the same work into the stream, whatever the values.
  struct Kind {
    int64_t n = 0;         // samples
    bool is_first = true;  // of the device's pieces of the minibatch
    bool is_last = true;
    bool is_weighed = false;  // one of several pieces, here or on other devices
    bool adds_behind = false;
    float clip_norm = 0;
    bool bf16_gradients = false;
    uint64_t encoding = 0;  // DeviceEncoder::version, where it makes bytes of gradients

    friend bool operator==(const Kind&, const Kind&) = default;
  };

  using OnTensors = std::function<void(uint32_t first_tensor, uint32_t count)>;

  /// What a piece does. Only `pass`, `finish` and `finish_all` are recorded.
  struct Work {
    /// Puts forward and backward into the stream. Calls `on_final` for tensors whose gradients are
    /// the device's own sums once the stream has come so far.
    std::function<void(const OnTensors& on_final)> pass;
    /// Has the stream wait for the sums of these tensors from elsewhere; empty: there are none.
    OnTensors await = {};
    /// Puts into the stream what makes these tensors' sums complete.
    OnTensors finish;
    /// The same for all tensors, once each is finished; then they leave together. May be empty.
    std::function<void()> finish_all = {};
    /// Complete sums leave.
    OnTensors leave;
  };

  /// The stream and the tensors outlive it.
  StepRecorder(kernels::Stream* stream, const std::vector<TensorSpec>* tensors)
      : stream_(stream), tensors_(tensors) {}

  /// The first piece of a kind does its work. The second has it recorded, and those after it repeat
  /// the recording: `await` and `leave` are told of the same tensors, of neighbours at once and
  /// perhaps somewhat later. Requires: while work is recorded it takes no memory and waits for
  /// nothing.
  void Run(const Kind& kind, const Work& work);
  /// Does it without a recording.
  void RunOnce(const Work& work) const;

 private:
  class Taking;

  struct Tensors {
    uint32_t first = 0;
    uint32_t count = 0;
  };

  /// Work between two places where something comes or leaves.
  struct Part {
    std::vector<Tensors> awaited;
    std::unique_ptr<kernels::Recording> recording;
    std::vector<Tensors> leaving;
  };

  struct Known {
    Kind kind;
    std::vector<Part> parts;  // none: not recorded
  };

  static void ForEach(const std::vector<Tensors>& all, const OnTensors& function);
  bool CanReplay(const Known& known) const;

  kernels::Stream* stream_;
  const std::vector<TensorSpec>* tensors_;
  std::vector<Known> known_;  // the newest is last
};

}  // namespace ps::worker
