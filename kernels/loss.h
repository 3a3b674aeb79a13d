#pragma once

#include <cstdint>
#include <vector>

namespace ps::kernels {

// What a model is trained for. The loss of n samples is a mean, as PyTorch's losses with
// reduction="mean" have it:
//
//   softmax cross-entropy   sum over the rows of loss(row) / sum over the rows of w[label]
//     loss(row) = - sum over j of q[j] log(p[j]),  p = softmax(z),
//     q[j] = (1 - smoothing) w[label] [j = label] + smoothing / classes w[j];  w is 1 without
//     class weights
//   the others              the mean over samples and outputs of an element's loss of output z and
//                           target t (kernels/loss_elements.h)

enum class LossKind : uint8_t { kSoftmaxCrossEntropy, kMse, kMae, kHuber, kBce };

/// Whether labels are classes; else they are numbers, one for each output.
constexpr bool HasClasses(LossKind kind) {
  return kind == LossKind::kSoftmaxCrossEntropy;
}

struct LossRule {
  LossKind kind = LossKind::kSoftmaxCrossEntropy;
  float delta = 1;                   // kHuber
  float smoothing = 0;               // kSoftmaxCrossEntropy
  std::vector<float> class_weights;  // likewise; empty: all 1

  friend bool operator==(const LossRule&, const LossRule&) = default;
};

/// What a loss finds, in device memory. Sums over rows that have a label, or over all outputs.
struct LossResult {
  double loss_sum = 0;       // NaN as soon as one output is NaN
  int64_t correct = 0;       // rows whose first largest output is the label's; kBce: outputs on the
                             // label's side of 0. None where one is NaN
  int64_t near = 0;          // if asked for: rows where the label's output is among the five
                             // largest; kBce: samples all of whose outputs are right
  double squared_error = 0;  // of outputs, where labels are numbers
  double absolute_error = 0;  // likewise
};

/// The label of a row that counts for nothing: no loss, no hit, a gradient of 0. Only of classes.
inline constexpr uint32_t kNoLabel = UINT32_MAX;

/// Where a loss reads and writes. All in device memory.
struct LossArgs {
  int64_t n = 0;                     // rows
  int64_t classes = 0;               // outputs of a row
  const float* logits = nullptr;     // [n, classes]
  const uint32_t* labels = nullptr;  // [n], each below `classes`, or kNoLabel. Numbers: [n,
                                     // classes], the bits of a float each
  float* dz = nullptr;               // [n, classes], written: gradient of the mean loss. May be
                                     // nullptr, may be `logits`
  LossResult* result = nullptr;      // written
  const double* divisor = nullptr;   // what sums become a mean by; nullptr or 0: the rows, of
                                     // numbers the outputs
  LossKind kind = LossKind::kSoftmaxCrossEntropy;
  float delta = 1;
  float smoothing = 0;
  const float* class_weights = nullptr;  // [classes]; nullptr: all 1
  bool counts_near = false;
};

}  // namespace ps::kernels
