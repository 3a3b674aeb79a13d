#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace ps::kernels {

/// Softmax cross-entropy: loss(i) = log(sum over j of exp(z[i,j])) - z[i, label(i)].
///   logits  [n, classes]
///   labels  n values in [0, classes)
///   dz      [n, classes], written: gradient of the mean loss, (softmax(z) - onehot) / n. May be
///           nullptr, may be `logits`.
LossResult SoftmaxCrossEntropy(
    const float* logits, std::span<const uint32_t> labels, int64_t classes, float* dz);

}  // namespace ps::kernels
