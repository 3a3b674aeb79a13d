#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "worker/model/layer_rule.h"
#include "worker/model/model.h"

// Checks of layers' inputs, and tensors, for the rules in worker/model/layers.

namespace ps::worker {

/// Widths that a config may ask for: channels, features, height.
inline constexpr int64_t kWidthMax = int64_t{1} << 20;
/// The most of a tensor, and of one sample's activation. These limits keep every product of
/// dimensions far from overflow, and a typing error in a config from asking for terabytes.
inline constexpr int64_t kElementsMax = int64_t{1} << 30;
/// Standard deviation of what is drawn for sequences, as of GPT-2.
inline constexpr float kSequenceInit = 0.02F;
/// Operations of a normalisation for each element, about.
inline constexpr int64_t kNormFlops = 8;

/// kInvalidArgument: a layer, or the whole, that does not fit.
inline Status Misfit(std::string message) {
  return Status::InvalidArgument(std::move(message));
}

Status CheckShape(const Shape& shape);
Status CheckCount(const char* field, int64_t value, int64_t low, int64_t high);
Status CheckRange(const char* field, double value, double low, double high);
Status CheckImage(const Shape& in);
Status CheckSequence(const Shape& in);
/// The rule of a loss: at the end of the layers it is taken out, so anywhere else it is one too
/// many.
Status RefuseInnerLoss(Layer* layer, std::vector<TensorSpec>* tensors);
/// Sets the output of a square window over the input; keeps the channels.
Status ApplyWindow(Layer* layer);

/// Values of the two factors of the largest product of a layer of `rows` vectors, forward or
/// backward, as copies in bf16, whose rows a device pads to 16 bytes.
int64_t LargestFactors(int64_t rows, int64_t in, int64_t out);

TensorSpec Constant(const char* what, int64_t size, float value);
/// With rule kAverage: `rate` is the weight of the newest observation.
TensorSpec Average(const char* what, int64_t size, float value, float rate);
/// Drawn He-normal, with weight decay; the first dimension is the outputs.
TensorSpec Weight(std::vector<int64_t> shape);
/// A linear layer that is a part of another one.
LayerPart LinearPart(const char* name, int64_t out);
/// The gamma and beta of a normalisation.
void AppendScaleAndShift(int64_t channels, std::vector<TensorSpec>* tensors);

}  // namespace ps::worker
