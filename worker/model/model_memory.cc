// What sequence.cc, replica.cc, device_parameters.cc, gradient_return.cc, device_encoder.cc and
// local_steps.cc take; the tests compare.

#include "worker/model/model_memory.h"

#include <algorithm>
#include <vector>

#include "ps/proto/chunks.h"
#include "worker/model/layer_rule.h"

namespace ps::worker {
namespace {

using proto::LayerKind;

/// Floats for each sample.
struct SampleFloats {
  int64_t kept = 0;     // from forward to backward, and what backward passes on
  int64_t ops = 0;      // that ops on a device keep in memory of their own
  int64_t scratch = 0;  // of the op that needs most

  void Add(const SampleFloats& other) {
    kept += other.kept;
    ops += other.ops;
    scratch = std::max(scratch, other.scratch);
  }
};

/// For layers in a row, as Sequence has them; `input_floats` are of a copy of the input in front.
/// `adds_sides`: a batch norm at the end of a residual layer's body writes the layer's output.
SampleFloats FloatsOf(const std::vector<Layer>& layers, int64_t input_floats, bool adds_sides) {
  SampleFloats floats;
  floats.kept = input_floats;
  int64_t gradient_max = input_floats;
  bool may_overwrite = false;  // the output of the layer before
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const LayerRule& rule = LayerRuleOf(layer.kind);
    const int64_t in = layer.in.element_count();
    const int64_t out = layer.out.element_count();
    floats.Add(FloatsOf(layer.body, 0, adds_sides));
    if (!layer.shortcut.empty()) {
      floats.Add(FloatsOf(layer.shortcut, 0, adds_sides));
      floats.kept += in;  // its part of the gradient
    }
    const bool is_added =
        adds_sides && !layer.body.empty() && LayerRuleOf(layer.body.back().kind).traits.adds_side;
    floats.kept += is_added || (rule.traits.runs_in_place && may_overwrite) ? 0 : out;
    floats.ops += rule.kept_floats != nullptr ? rule.kept_floats(layer) : 0;
    gradient_max = std::max(gradient_max, i > 0 ? in : 0);
    const bool is_fused = (rule.traits.takes_relu || is_added) && i + 1 < layers.size() &&
                          layers[i + 1].kind == LayerKind::kRelu;
    gradient_max = std::max(gradient_max, is_fused && is_added ? out : 0);
    floats.scratch = std::max(floats.scratch, is_fused && !is_added ? out : 0);
    may_overwrite = !is_fused && !rule.traits.keeps_output;
    i += is_fused ? 1 : 0;
  }
  floats.kept += 2 * gradient_max;
  return floats;
}

/// Whether the loss's gradient is written over the outputs, as by Sequence::gives_output_away.
bool GivesOutputAway(const std::vector<Layer>& layers, bool adds_sides) {
  const Layer& last = layers.back();
  const bool is_added =
      adds_sides && !last.body.empty() && LayerRuleOf(last.body.back().kind).traits.adds_side;
  return is_added ? GivesOutputAway(last.body, adds_sides)
                  : !LayerRuleOf(last.kind).traits.keeps_output;
}

/// Values of the two factors of the largest product, which are rounded to bf16 one at a time.
int64_t FactorsMax(const std::vector<Layer>& layers, int64_t samples) {
  int64_t most = 0;
  for (const Layer& layer : layers) {
    most = std::max({most, FactorsMax(layer.body, samples), FactorsMax(layer.shortcut, samples)});
    if (const auto factor_values = LayerRuleOf(layer.kind).factor_values) {
      most = std::max(most, factor_values(layer, samples));
    }
  }
  return most;
}

proto::TensorLayout LayoutOf(const Model& model) {
  std::vector<int64_t> elements;
  for (const TensorSpec& tensor : model.tensors) {
    elements.push_back(tensor.element_count());
  }
  return proto::TensorLayout(elements);
}

/// As LocalSteps::Allocate: where a push began or what it trains, the optimizer's, observations.
int64_t LocalValues(const Model& model, const MemoryUse& use) {
  int64_t averaged = 0;
  for (const TensorSpec& tensor : model.tensors) {
    averaged += tensor.rule == UpdateRule::kAverage ? tensor.element_count() : 0;
  }
  const int64_t trained = model.parameter_count() - averaged;
  const int64_t once =
      use.has_own_memory ? LayoutOf(model).element_count() : model.parameter_count();
  return averaged + *use.local_slots * trained + once;
}

uint64_t Bytes(int64_t values, size_t value_bytes = sizeof(float)) {
  return static_cast<uint64_t>(values) * value_bytes;
}

}  // namespace

/// A step that is clipped can't leave before all of it is there.
bool OverlapsSteps(const proto::JobConfig& config) {
  return config.train.overlap && config.optimizer.clip_norm == 0;
}

DeviceMemory MemoryOf(const Model& model, const MemoryUse& use) {
  const bool has_gradients = use.has_own_memory || !use.is_first;
  const int copies = (use.has_own_memory ? 1 : 0) + (has_gradients ? 1 : 0) +
                     (use.is_last ? 0 : 1) + (use.adds_pieces ? 1 : 0);
  DeviceMemory memory;
  memory.tensors = Bytes(copies * LayoutOf(model).element_count());
  if (use.has_second_copy) {
    memory.second_copy = Bytes(LayoutOf(model).element_count());
  }
  if (use.bf16_gradients && use.is_first) {
    memory.rounded = Bytes(model.parameter_count(), sizeof(uint16_t));
  }
  if (use.has_own_memory && use.is_first && use.push.is_lossy()) {
    for (const TensorSpec& tensor : model.tensors) {
      const bool is_encoded = tensor.rule == UpdateRule::kOptimizer;
      const auto count = static_cast<uint64_t>(tensor.element_count());
      memory.rounded += is_encoded ? use.push.SizeOf(count) : 0;
      memory.rounded += use.has_feedback ? Bytes(tensor.element_count()) : 0;
    }
  }
  const int64_t input = model.input.element_count();
  const bool is_reordered = model.input.channels > 1 && !model.input.is_flat();
  const SampleFloats floats = FloatsOf(model.layers, is_reordered ? input : 0, use.has_own_memory);
  const int64_t copied = use.has_own_memory ? input + model.labels : 0;
  const bool is_over_outputs = GivesOutputAway(model.layers, use.has_own_memory);
  const int64_t logits = is_over_outputs ? 0 : model.output_count();  // their gradient
  const int64_t ops = use.has_own_memory ? floats.ops : 0;
  memory.activations = Bytes(use.samples * (copied + logits + ops + floats.kept));
  if (use.has_own_memory) {
    memory.scratch = Bytes(use.samples * floats.scratch);
    if (use.bf16_products) {
      memory.scratch += Bytes(FactorsMax(model.layers, use.samples), sizeof(uint16_t));
    }
  }
  if (use.local_slots && use.is_first) {
    memory.local = Bytes(LocalValues(model, use));
  }
  return memory;
}

uint64_t HostTensorBytes(const Model& model, int64_t gradients) {
  return Bytes((1 + gradients) * LayoutOf(model).element_count());
}

}  // namespace ps::worker
