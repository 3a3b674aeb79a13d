#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/op.h"
#include "kernels/cpu/workspace.h"

namespace ps::kernels {

struct LinearOptions {
  int64_t in_features = 1;
  int64_t out_features = 1;
  bool bias = true;
  bool input_gradient = true;  // false: Backward is never asked for dx
};

/// y[n,o] = b[o] + sum over i of x[n,i] * w[o,i].
///   params  w [o,i], then b [o] if there is a bias
/// `workspace` outlives the op.
std::unique_ptr<Op> MakeLinear(const LinearOptions& options, Workspace* workspace);

}  // namespace ps::kernels
