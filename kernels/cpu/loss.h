#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace ps::kernels {

/// Softmax cross-entropy: loss(i) = log(sum over j of exp(z[i,j])) - z[i, label(i)].
///   logits  [n, classes]
///   labels  n values in [0, classes), or kNoLabel
///   dz      [n, classes], written: gradient of the mean loss, (softmax(z) - onehot) / `labelled`.
///           May be nullptr, may be `logits`.
///   labelled  how many labels are not kNoLabel; 0 stands for n
LossResult SoftmaxCrossEntropy(
    const float* logits,
    std::span<const uint32_t> labels,
    int64_t classes,
    float* dz,
    int64_t labelled = 0);

}  // namespace ps::kernels
