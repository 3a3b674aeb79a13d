#include "kernels/cpu/threads.h"

#include <algorithm>

// Declared here instead of including <omp.h>: clang's header belongs to another OpenMP runtime than
// the one that oneDNN is linked with, and two runtimes in one process would both start threads.
extern "C" {
void omp_set_num_threads(int count);
int omp_get_max_threads(void);
}

namespace ps::kernels {

void SetComputeThreads(int count) {
  omp_set_num_threads(std::max(count, 1));
}

int ComputeThreads() {
  return omp_get_max_threads();
}

}  // namespace ps::kernels
