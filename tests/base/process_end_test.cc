#include "ps/process/process_end.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace ps {
namespace {

/// As the libraries that join their threads after main.
struct WaitsForEver {
  ~WaitsForEver() {
    if (is_armed) {
      ::pause();
    }
  }

  bool is_armed = false;
};

TEST(ProcessEndTest, NothingThatRunsAfterMainIsWaitedForAndTheStatusStays) {
  EXPECT_EXIT(
      {
        static WaitsForEver waits;
        waits.is_armed = true;
        EndWithoutCleanup();
        std::fputs("said before the end", stderr);
        std::exit(7);
      },
      testing::ExitedWithCode(7),
      "said before the end");
}

}  // namespace
}  // namespace ps
