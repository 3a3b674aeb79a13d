#pragma once

#include <array>
#include <cstdint>

#include "configs/job_values_generated.h"

namespace ps::kernels {

// Optimizers on one contiguous piece of parameters, in place, one pass over memory. Formulas and
// the meaning of every field are PyTorch's, so that learning rates found there hold here. Each rule
// is a header of kernels/optimizers, named as a config names it, which all devices compile.
//
// An element whose parameter or state would become NaN or infinite keeps both as they were: a huge
// gradient, though finite, must not spoil a parameter for good.
//
// Every operation is one IEEE operation in f32, in the order written, never fused: any machine and
// any device gives the same bits, and sgd gives those of a plain loop. Whoever includes the rules
// is compiled so.

using config::OptimizerKind;

/// What stays the same during a job. Its lr and weight_decay are not read here: UpdateStep has
/// those of a piece.
using OptimizerRule = config::OptimizerConfig;

/// State buffers that a rule may keep; kernels/optimizer_slots.h counts them.
inline constexpr int kOptimizerSlotsMax = 2;

/// What takes the place of a gradient g beside a momentum m: keep * g + towards * m.
struct Turn {
  float keep = 1;
  float towards = 0;
};

/// What differs from update to update.
struct UpdateStep {
  float lr = 0;            // weight of the push included
  float weight_decay = 0;  // 0 for tensors that have none
  uint64_t count = 1;      // t: updates of this buffer including this one, from 1
  Turn turn = {};          // for heloco
};

/// One piece's memory: no two buffers overlap.
struct OptimizerBuffers {
  const float* g = nullptr;                           // [n] f32  gradient, finite, read
  float* w = nullptr;                                 // [n] f32  parameters, read and written
  std::array<float*, kOptimizerSlotsMax> slots = {};  // [n] f32  the rule's, read and written
  int64_t n = 0;
};

/// One tensor of an update.
struct TensorUpdate {
  UpdateStep step;
  OptimizerBuffers buffers;
};

/// w += rate * (x - w): an average moves towards what was observed. As in an update, an element
/// that would become NaN or infinite stays as it was.
struct AverageMove {
  const float* x = nullptr;  // [n] f32, read
  float* w = nullptr;        // [n] f32, read and written; does not overlap x
  int64_t n = 0;
  float rate = 0;
};

}  // namespace ps::kernels
