#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/op.h"
#include "kernels/cpu/workspace.h"

namespace ps::kernels {

struct BatchNormOptions {
  int64_t channels = 1;
  int64_t height = 1;
  int64_t width = 1;
  float epsilon = 1e-5F;
  bool input_gradient = true;  // false: Backward is never asked for dx
};

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, per channel. Training takes mean and
/// (biased) variance of the batch over n*h*w values, evaluation the running ones.
///   params  gamma [c], beta [c], running mean [c], running variance [c]
///   grads   of gamma and beta; the last two are observations for the running statistics: the
///           batch's mean and its unbiased variance (of a single value: 0)
/// `workspace` outlives the op.
std::unique_ptr<Op> MakeBatchNorm(const BatchNormOptions& options, Workspace* workspace);

}  // namespace ps::kernels
