#pragma once

namespace ps::kernels {

/// How many threads the ops called from this thread use, from now on; at least 1.
/// Thread: the setting belongs to the calling thread (it is OpenMP's), so a compute thread sets its
/// own. A thread that never called this uses all cores.
void SetComputeThreads(int count);

/// The number in force for the calling thread.
int ComputeThreads();

}  // namespace ps::kernels
