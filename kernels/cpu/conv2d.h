#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/op.h"
#include "kernels/cpu/workspace.h"

namespace ps::kernels {

struct Conv2dOptions {
  int64_t in_channels = 1;
  int64_t in_height = 1;
  int64_t in_width = 1;
  int64_t out_channels = 1;
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = 0;  // zeros on all four sides
  bool bias = true;
  bool input_gradient = true;  // false: Backward is never asked for dx
};

/// y[n,oh,ow,o] = b[o] + sum over i,kh,kw of x[n, oh*s+kh-p, ow*s+kw-p, i] * w[o,i,kh,kw].
///   params  w [o,i,kh,kw], then b [o] if there is a bias
/// Output height and width are (in + 2*padding - kernel) / stride + 1, rounded down, and positive.
/// `workspace` outlives the op.
std::unique_ptr<Op> MakeConv2d(const Conv2dOptions& options, Workspace* workspace);

}  // namespace ps::kernels
