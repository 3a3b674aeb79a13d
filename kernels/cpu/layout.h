#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/op.h"
#include "kernels/cpu/workspace.h"

namespace ps::kernels {

/// [n,h,w,c] -> [n,c,h,w]: makes of an image the flat vector in canonical (channel-major) order.
std::unique_ptr<Op> MakeFlatten(
    int64_t channels, int64_t height, int64_t width, Workspace* workspace);

/// [n,c,h,w] -> [n,h,w,c]: the way in for canonical images.
std::unique_ptr<Op> MakeChannelsLast(
    int64_t channels, int64_t height, int64_t width, Workspace* workspace);

}  // namespace ps::kernels
