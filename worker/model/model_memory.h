#pragma once

#include <cstdint>
#include <optional>

#include "ps/codec/encoding.h"
#include "ps/proto/job/job_config.h"
#include "worker/model/model.h"

namespace ps::worker {

/// Whether a worker of the job may compute a step while the one before it travels, and so has two
/// gradients, and its devices the parameters twice.
bool OverlapsSteps(const proto::JobConfig& config);

/// How a model is trained on one of a worker's devices, as Network does it.
struct MemoryUse {
  int64_t samples = 1;           // that it computes at a time
  bool has_own_memory = false;   // parameters and gradients are copied there
  bool has_second_copy = false;  // of the parameters; with has_own_memory
  bool is_first = true;          // in the row of the worker's devices
  bool is_last = true;
  bool adds_pieces = false;     // a minibatch is more than `samples` on a device
  bool bf16_gradients = false;  // train.gradient_dtype
  bool bf16_products = false;   // train.precision
  /// As DeviceEncoder makes of gradients on the first device; f32: it makes nothing.
  codec::Encoding push{};
  bool has_feedback = false;
  /// With train.local_steps: values that the worker's optimizer remembers of each one it trains.
  std::optional<int> local_slots = std::nullopt;
};

/// Bytes of a device's memory in training, or of the host's where that is the device's. What ops
/// keep for themselves is counted where it grows with the samples.
struct DeviceMemory {
  uint64_t tensors = 0;      // parameters and gradients
  uint64_t second_copy = 0;  // of the parameters; gives way where memory is short
  uint64_t rounded = 0;      // gradients in fewer bits before they leave, and what that has lost
  uint64_t activations = 0;  // with the input, and the gradients that backward passes on
  uint64_t scratch = 0;      // for one op at a time
  uint64_t local = 0;        // what local steps train and remember

  /// That a step can't do without.
  uint64_t least() const { return tensors + rounded + activations + scratch + local; }

  uint64_t total() const { return least() + second_copy; }
};

DeviceMemory MemoryOf(const Model& model, const MemoryUse& use);

/// Bytes of the buffers that a worker's parameters and `gradients` gradients are in, each.
uint64_t HostTensorBytes(const Model& model, int64_t gradients);

}  // namespace ps::worker
