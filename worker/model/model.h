#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/loss.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/job/tensor_treatment.h"

namespace ps::worker {

/// The label of what nothing is to be learnt from. As kernels::kNoLabel.
inline constexpr uint32_t kNoLabel = UINT32_MAX;

enum class ShapeKind : uint8_t {
  kImage,     // a flat vector of c features is {c, 1, 1}
  kSequence,  // t tokens of c features are {c, t, 1}
  kTokens,    // t numbers below the vocabulary are {1, t, 1}: whole, though stored as floats
};

/// Shape of one sample's activation.
struct Shape {
  int64_t channels = 1;
  int64_t height = 1;
  int64_t width = 1;
  ShapeKind kind = ShapeKind::kImage;
  int64_t vocabulary = 0;  // kTokens only

  int64_t element_count() const { return channels * height * width; }

  bool is_flat() const { return kind == ShapeKind::kImage && height == 1 && width == 1; }

  /// "16x28x28", "128" when flat, "64 tokens of 128", "64 tokens below 256".
  std::string ToString() const;

  friend bool operator==(const Shape&, const Shape&) = default;
};

/// A layer of the config with everything resolved: strides of 0 replaced, shapes inferred, tensors
/// numbered. attention stands for three of them (linear, the attention itself, linear), as does
/// feed_forward (linear, gelu, linear).
struct Layer {
  std::string name;  // what its tensors' names begin with, without the point
  proto::LayerKind kind = proto::LayerKind::kLinear;
  proto::LayerConfig config;  // its nested layers are empty: they are in body and shortcut
  Shape in;
  Shape out;
  uint32_t first_tensor = 0;  // this layer's own tensors; not those nested in it
  uint32_t tensor_count = 0;
  bool is_frozen = false;       // it has tensors, and all of them are
  std::vector<Layer> body;      // residual
  std::vector<Layer> shortcut;  // residual; identity when empty
};

/// What a job trains: layers for the worker's arithmetic, tensors for the servers.
struct Model {
  Shape input;
  kernels::LossRule loss;
  int64_t classes = 0;  // outputs, of a sample or of each of its labelled tokens
  int64_t labels = 1;   // of a sample: one class, or one for each of its tokens; numbers: one for
                        // each output
  std::vector<Layer> layers;
  /// In layer order; the index is the tensor number of chunk keys. Names are
  /// "<layer>.<kind>.<what>", e.g. "0.conv2d.weight", "4.residual.body.1.batch_norm.gamma" or
  /// "2.residual.body.1.attention.qkv.weight".
  std::vector<TensorSpec> tensors;
  /// By tensor, once TreatTensors has been called; before, all are treated as they are.
  std::vector<proto::TensorTreatment> treatments;

  int64_t parameter_count() const;
  /// Without those that are frozen.
  int64_t trained_count() const;

  proto::TensorTreatment TreatmentOf(size_t tensor) const {
    return treatments.empty()
               ? proto::TensorTreatment{.has_weight_decay = tensors[tensor].has_weight_decay}
               : treatments[tensor];
  }

  /// Outputs of a sample in all.
  int64_t output_count() const { return HasClasses(loss.kind) ? labels * classes : classes; }

  /// Whether an evaluation counts near hits (kernels::LossResult): of more than ten classes, and of
  /// samples with several labels.
  bool counts_near() const {
    constexpr int64_t kManyClasses = 10;
    return loss.kind == kernels::LossKind::kBce
               ? classes > 1
               : HasClasses(loss.kind) && labels == 1 && classes > kManyClasses;
  }

  /// Rows of outputs that the loss sees of so many labels.
  int64_t RowsOf(int64_t label_count) const {
    return HasClasses(loss.kind) ? label_count : label_count / labels;
  }
};

/// Infers shapes and tensors. config.layers decides; when it is empty, config.name must be in the
/// zoo. Weights are drawn He-normal (standard deviation sqrt(2 / fan-in)), those of layers on
/// sequences with 0.02; biases start at 0. `labels` is how many a sample has; where the loss is of
/// numbers, as many as `classes`.
/// Errors: kInvalidArgument that names the layer and says what does not fit, e.g.
/// "layer 3 (conv2d): kernel 5 does not fit input 16x3x3 with padding 0".
Result<Model> MakeModel(
    const proto::ModelConfig& config, const Shape& input, int64_t classes, int64_t labels = 1);

/// Which tensors are trained otherwise, by config.parameters. Errors: as proto::CheckGroups.
Status TreatTensors(const proto::JobConfig& config, Model* model);

/// "conv2d", ...: the name that a config uses.
std::string_view LayerKindName(proto::LayerKind kind);

}  // namespace ps::worker
