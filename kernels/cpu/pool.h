#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/op.h"
#include "kernels/cpu/workspace.h"

namespace ps::kernels {

enum class PoolKind : uint8_t {
  kMax,      // padding never wins; backward goes to one largest element of a window
  kAverage,  // padding counts as zeros, so every window is divided by its full area
};

struct PoolOptions {
  PoolKind kind = PoolKind::kMax;
  int64_t channels = 1;
  int64_t in_height = 1;
  int64_t in_width = 1;
  int64_t kernel_height = 2;
  int64_t kernel_width = 2;
  int64_t stride = 2;
  int64_t padding = 0;  // < kernel
};

/// Windows of kernel_height x kernel_width; output size as for conv2d. A global average pool is a
/// kAverage with the input's size as kernel and no padding. `workspace` outlives the op.
std::unique_ptr<Op> MakePool(const PoolOptions& options, Workspace* workspace);

}  // namespace ps::kernels
