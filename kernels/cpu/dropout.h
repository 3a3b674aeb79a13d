#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/op.h"

namespace ps::kernels {

struct DropoutOptions {
  int64_t elements = 1;  // per sample
  float rate = 0.5F;     // probability of zeroing, in [0, 1)
  uint64_t seed = 0;
  uint64_t layer = 0;  // tells apart the masks of one network's dropouts
};

/// Training: y = x / (1 - rate) where kept, 0 where not; evaluation: y = x. Whether element i of
/// the batch is kept in step s is a function of (seed, layer, s, i) alone. Runs in place.
std::unique_ptr<Op> MakeDropout(const DropoutOptions& options);

}  // namespace ps::kernels
