#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/op.h"
#include "kernels/cpu/workspace.h"

namespace ps::kernels {

/// y = max(x, 0); its gradient at 0 is 0. Runs in place. `elements` per sample.
std::unique_ptr<Op> MakeRelu(int64_t elements, Workspace* workspace);

/// y = x * Phi(x), Phi the normal distribution function by erf (not the tanh approximation).
std::unique_ptr<Op> MakeGelu(int64_t elements, Workspace* workspace);

}  // namespace ps::kernels
