#include "worker/step_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::worker {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

TimePoint At(double millis) {
  return TimePoint() + FromSeconds(millis / 1000);
}

/// A step that begins at `begin`: forward takes 30 ms, tensor 1 is ready 20 ms later and tensor 0
/// another 40, and the step ends 10 ms after that.
void TakeStep(double begin, uint64_t samples, StepProbe* probe) {
  probe->Begin(samples, At(begin));
  probe->OnForward(false, At(begin + 5));
  probe->OnForward(true, At(begin + 30));
  probe->OnReady(1, At(begin + 50));
  probe->OnReady(0, At(begin + 90));
  probe->End(At(begin + 100));
}

TEST(StepProbeTest, EveryStepHasItsOwnZero) {
  StepProbe probe(2, 0);
  for (int i = 0; i < 100; ++i) {
    TakeStep(137 * i, 32, &probe);
  }
  const StepProbe::Figures figures = probe.figures();
  EXPECT_EQ(figures.steps, 100U);
  EXPECT_EQ(figures.samples, 32U);
  EXPECT_NEAR(figures.forward_s, 0.03, 1e-9) << "what comes before the pass belongs to it";
  EXPECT_NEAR(figures.backward_s, 0.07, 1e-9);
  EXPECT_THAT(figures.ready, ElementsAre(DoubleNear(6.0 / 7, 1e-9), DoubleNear(2.0 / 7, 1e-9)));
}

TEST(StepProbeTest, TheFirstStepsDoNotCount) {
  StepProbe probe(1, 2);
  for (const double slow : {900.0, 800.0, 10.0}) {
    probe.Begin(4, At(0));
    probe.OnForward(true, At(slow));
    probe.OnReady(0, At(slow + 10));
    probe.End(At(slow + 10));
  }
  EXPECT_EQ(probe.figures().steps, 1U);
  EXPECT_NEAR(probe.figures().forward_s, 0.01, 1e-9);
}

TEST(StepProbeTest, OfSeveralPiecesForwardIsTheirSumAndTensorsAreReadyInBackwardTime) {
  StepProbe probe(1, 0);
  probe.Begin(8, At(0));
  probe.OnForward(false, At(1));
  probe.OnForward(true, At(10));
  probe.OnForward(false, At(30));  // 20 ms of backward
  probe.OnForward(true, At(40));
  probe.OnReady(0, At(55));
  probe.End(At(60));
  const StepProbe::Figures figures = probe.figures();
  EXPECT_NEAR(figures.forward_s, 0.02, 1e-9);
  EXPECT_NEAR(figures.backward_s, 0.04, 1e-9);
  EXPECT_THAT(figures.ready, ElementsAre(DoubleNear(35.0 / 40, 1e-9)));
}

TEST(StepProbeTest, OnlyTheLargestMinibatchCountsAndAStepThatFailsDoesNot) {
  StepProbe probe(2, 0);
  TakeStep(0, 8, &probe);
  TakeStep(100, 32, &probe);
  TakeStep(200, 8, &probe);
  probe.Begin(32, At(300));
  probe.OnForward(true, At(900));
  TakeStep(1000, 32, &probe);
  EXPECT_EQ(probe.figures().steps, 2U);
  EXPECT_EQ(probe.figures().samples, 32U);
  EXPECT_NEAR(probe.figures().forward_s, 0.03, 1e-9);
  EXPECT_EQ(StepProbe(2, 0).figures().steps, 0U);
}

}  // namespace
}  // namespace ps::worker
