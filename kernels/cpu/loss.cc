#include "kernels/cpu/loss.h"

#include <algorithm>
#include <cmath>

#include "ps/base/check.h"

namespace ps::kernels {

LossResult SoftmaxCrossEntropy(
    const float* logits,
    std::span<const uint32_t> labels,
    int64_t classes,
    float* dz,
    int64_t labelled) {
  LossResult result;
  const auto n = static_cast<int64_t>(labels.size());
  const float inverse_n = 1.0F / static_cast<float>(labelled == 0 ? n : labelled);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kNoLabel) {
      if (dz != nullptr) {
        std::fill_n(dz + static_cast<int64_t>(i) * classes, classes, 0.0F);
      }
      continue;
    }
    const auto label = static_cast<int64_t>(labels[i]);
    PS_CHECK(label < classes) << "label " << label << " of " << classes << " classes";
    const float* z = logits + static_cast<int64_t>(i) * classes;
    int64_t best = 0;
    bool has_nan = false;
    for (int64_t j = 0; j < classes; ++j) {
      has_nan = has_nan || std::isnan(z[j]);
      best = z[j] > z[best] ? j : best;
    }
    const float highest = z[best];
    const float chosen = z[label];  // read before dz, which may be the same memory
    double sum = 0;
    for (int64_t j = 0; j < classes; ++j) {
      sum += static_cast<double>(std::exp(z[j] - highest));
    }
    result.loss_sum += std::log(sum) - static_cast<double>(chosen - highest);
    result.correct += best == label && !has_nan ? 1 : 0;
    if (dz == nullptr) {
      continue;
    }
    float* out = dz + static_cast<int64_t>(i) * classes;
    const auto inverse_sum = static_cast<float>(1.0 / sum);
    for (int64_t j = 0; j < classes; ++j) {
      const float probability = std::exp(z[j] - highest) * inverse_sum;
      out[j] = (probability - (j == label ? 1.0F : 0.0F)) * inverse_n;
    }
  }
  return result;
}

}  // namespace ps::kernels
