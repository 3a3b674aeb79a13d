#pragma once

#include <cstdint>
#include <span>

#include "ps/base/picture_move.h"

namespace ps::worker {

/// One minibatch.
struct Batch {
  std::span<const float> images;     // [n, c, h, w], of the model's input shape; or [n, tokens]
  std::span<const uint32_t> labels;  // [n, labels of a sample], each below the model's class count,
                                     // or kNoLabel where a sample has several; where the loss is
                                     // of numbers, the bits of a float each
  // Instead of images, for a network that takes pictures:
  std::span<const uint8_t> bytes = {};      // [n, c, h, w] of the PictureFormat
  std::span<const PictureMove> moves = {};  // [n]
};

/// Where a sample has several labels, its loss is their mean, and it is correct as far as they are:
/// the sum of these parts is rounded to whole samples.
struct BatchLoss {
  double loss_sum = 0;  // over the batch's samples
  int64_t correct = 0;
  int64_t samples = 0;
  // As kernels::LossResult, of samples as the loss is.
  int64_t near = 0;
  double squared_error = 0;
  double absolute_error = 0;
};

}  // namespace ps::worker
