#include "kernels/cpu/loss.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/loss_elements.h"
#include "ps/base/check.h"

namespace ps::kernels {
namespace {

/// Adds one row. `scale` is 1 / what sums become a mean by.
void AddClassRow(const LossArgs& args, int64_t row, float scale, LossResult* result) {
  const int64_t classes = args.classes;
  const auto label = static_cast<int64_t>(args.labels[row]);
  PS_CHECK(label < classes) << "label " << label << " of " << classes << " classes";
  const float* z = args.logits + row * classes;
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
  const ClassTarget target{classes, args.smoothing, args.class_weights};
  double total = 1;
  if (target.is_plain()) {
    result->loss_sum += std::log(sum) - static_cast<double>(chosen - highest);
  } else {
    total = 0;
    double drawn = 0;
    for (int64_t j = 0; j < classes; ++j) {
      const auto weight = static_cast<double>(target.At(j, label));
      total += weight;
      drawn += weight == 0 ? 0.0 : weight * static_cast<double>(z[j] - highest);
    }
    result->loss_sum += total * std::log(sum) - drawn;
  }
  result->correct += best == label && !has_nan ? 1 : 0;
  if (args.counts_near) {
    const Ranking ranking{chosen, label};
    int64_t before = 0;
    for (int64_t j = 0; j < classes; ++j) {
      before += ranking.IsBefore(z[j], j) ? 1 : 0;
    }
    result->near += before < Ranking::kNear && !has_nan ? 1 : 0;
  }
  if (args.dz == nullptr) {
    return;
  }
  float* out = args.dz + row * classes;
  const auto inverse_sum = static_cast<float>(total / sum);
  for (int64_t j = 0; j < classes; ++j) {
    const float probability = std::exp(z[j] - highest) * inverse_sum;
    const float wanted = target.is_plain() ? (j == label ? 1.0F : 0.0F) : target.At(j, label);
    out[j] = (probability - wanted) * scale;
  }
}

template <typename Element>
void AddNumberRow(
    const LossArgs& args, const Element& element, int64_t row, float scale, LossResult* result) {
  int64_t wrong = 0;
  for (int64_t i = row * args.classes; i < (row + 1) * args.classes; ++i) {
    const float z = args.logits[i];
    const auto t = std::bit_cast<float>(args.labels[i]);
    const double error = static_cast<double>(z) - static_cast<double>(t);
    result->loss_sum += element.Loss(z, t);
    result->squared_error += error * error;
    result->absolute_error += std::fabs(error);
    const bool is_right = element.IsRight(z, t);
    result->correct += is_right ? 1 : 0;
    wrong += is_right ? 0 : 1;
    if (args.dz != nullptr) {
      args.dz[i] = element.Slope(z, t) * scale;
    }
  }
  result->near += args.counts_near && wrong == 0 ? 1 : 0;
}

}  // namespace

void ComputeLoss(const LossArgs& args) {
  LossResult result;
  const bool has_classes = HasClasses(args.kind);
  const double divisor = args.divisor == nullptr ? 0 : *args.divisor;
  const int64_t terms = has_classes ? args.n : args.n * args.classes;
  const float scale =
      1.0F / static_cast<float>(divisor == 0 ? static_cast<double>(terms) : divisor);
  for (int64_t row = 0; row < args.n; ++row) {
    if (!has_classes) {
      WithElement(args.kind, args.delta, [&](const auto& element) {
        AddNumberRow(args, element, row, scale, &result);
      });
    } else if (args.labels[row] != kNoLabel) {
      AddClassRow(args, row, scale, &result);
    } else if (args.dz != nullptr) {
      std::fill_n(args.dz + row * args.classes, args.classes, 0.0F);
    }
  }
  *args.result = result;
}

}  // namespace ps::kernels
