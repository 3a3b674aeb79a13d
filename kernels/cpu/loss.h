#pragma once

#include "kernels/loss.h"

namespace ps::kernels {

/// The loss, and with args.dz its gradient, on the calling thread. All memory is the host's.
void ComputeLoss(const LossArgs& args);

}  // namespace ps::kernels
