#pragma once

#include <memory>

#include "kernels/backend.h"

namespace ps::kernels {

/// This machine's CPU: device memory is the host's, a stream works on the calling thread at once.
/// How many threads take part is the calling thread's (kernels/cpu/threads.h). Every op is there.
std::unique_ptr<Backend> MakeCpuBackend();

}  // namespace ps::kernels
