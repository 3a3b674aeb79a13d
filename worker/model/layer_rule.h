#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/loss.h"
#include "kernels/op_spec.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/proto/job/job_config.h"
#include "worker/model/model.h"

// What the program knows of a kind of layer. Each has a header of worker/model/layers, named as a
// config names the kind, with a LayerRule k<Kind>Layer.

namespace ps::worker {

/// A layer that one of the config stands for, and what stands before its tensors' names.
struct LayerPart {
  std::string name;
  proto::LayerConfig config;
};

/// What the ops of a network have in common.
struct LayerOpOptions {
  uint64_t seed = 0;
  bool input_gradient = false;                              // Backward is asked for dx
  kernels::Precision precision = kernels::Precision::kF32;  // of ops that multiply
};

/// What its op may do, as the reckoning of memory and the order of ops see it.
struct LayerTraits {
  bool takes_relu = false;     // does the relu behind it too, where the backend has such an op
  bool adds_side = false;      // ends a residual layer's body with the sum, likewise
  bool runs_in_place = false;  // may write over its input
  bool keeps_output = false;   // Backward reads what Forward wrote
  bool is_by_token = false;    // of a sequence, each token is a sample of the op
  bool mixes_samples = false;  // normalises over the batch: needs two values a channel
};

struct LayerRule {
  /// Completes layer->config and layer->out, and appends the tensors, whose names the layer's is
  /// put before. `kind`, `config` and `in` are set, and `out` is `in`. Null: nothing is to be done.
  /// Errors: kInvalidArgument that says what does not fit.
  Status (*resolve)(Layer* layer, std::vector<TensorSpec>* tensors) = nullptr;
  /// The layers that it stands for, of which one may have its own kind. Null: itself.
  Result<std::vector<LayerPart>> (*parts)(const proto::LayerConfig& config, const Shape& in) =
      nullptr;
  /// The op that computes it. `index` tells apart the dropouts of a network. Null: none does.
  kernels::OpSpec (*op)(const Layer& layer, const LayerOpOptions& options, uint64_t index) =
      nullptr;
  /// Operations of a forward pass of one sample. Null: one for each element of the output.
  int64_t (*flops)(const Layer& layer) = nullptr;
  /// Floats for each sample that a device's op keeps from forward to backward. Null: none.
  int64_t (*kept_floats)(const Layer& layer) = nullptr;
  /// Values of the two factors of its largest product, which bf16 rounds one at a time. Null: its
  /// op rounds them on their way.
  int64_t (*factor_values)(const Layer& layer, int64_t samples) = nullptr;
  LayerTraits traits = {};
  /// It is no layer but the loss at the end of them.
  std::optional<kernels::LossKind> loss = std::nullopt;
};

const LayerRule& LayerRuleOf(proto::LayerKind kind);

}  // namespace ps::worker
