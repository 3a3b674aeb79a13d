// DeepVM's choices on the input of its released program, and on that of its simulation.

#include "provisioner/strategies/deepvm.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "provisioner/claims/deepvm_inputs.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;

/// "TI(g4dn,17; c5,1) 145.4322 2.8526"
std::string TextOf(const DeepVmProblem& problem, const DeepVmChoice& choice) {
  const std::string& trainer = problem.trainers[choice.trainer].name;
  const std::string fleet = choice.architecture == DeepVmArchitecture::kSingleAnchor
                                ? fmt::format("SA({},{})", trainer, choice.nodes)
                                : fmt::format(
                                      "TI({},{}; {},{})",
                                      trainer,
                                      choice.nodes,
                                      problem.remotes[choice.remote].name,
                                      choice.remotes);
  return fmt::format("{} {:.4f} {:.4f}", fleet, choice.score / 1e6, choice.usd_per_hour);
}

std::string TextOf(const DeepVmProblem& problem, const std::optional<DeepVmChoice>& choice) {
  if (!choice) {
    return "none";
  }
  const std::string text = TextOf(problem, *choice);
  return text.substr(0, text.find(')') + 1);
}

std::vector<std::string> TopOf(const DeepVmProblem& problem, DeepVmTies ties, size_t count) {
  std::vector<std::string> texts;
  for (const DeepVmChoice& choice : SolveDeepVm(problem, ties, count)) {
    texts.push_back(TextOf(problem, choice));
  }
  return texts;
}

TEST(DeepVmTest, ScalingFactorsAreThePublishedOnes) {
  const struct {
    const char* device;
    double factors[5];
  } rows[] = {
      {"M60", {0.998459, 0.949162, 0.891904, 0.842456, 0.825545}},
      {"T4", {0.994661, 0.935379, 0.877905, 0.830273, 0.814179}},
      {"A10G", {1, 0.998666, 0.990765, 0.978771, 0.973582}}};

  const int nodes[] = {17, 24, 28, 31, 32};
  for (const auto& row : rows) {
    const ScalingCurve& curve = PublishedTrainerOf(row.device)->curve;
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_NEAR(ScalingFactor(curve, nodes[i]), row.factors[i], 1e-6) << row.device << nodes[i];
    }
    EXPECT_EQ(ScalingFactor(curve, 2), 1);
    EXPECT_NEAR(1e6 * ScalingFactor(curve, 1e6), 4 / curve.slope, 1e-2) << "effective nodes";
  }
}

/// Fig. 5 of the paper: from 8 nodes on within 7, 5 and 18 %.
TEST(DeepVmTest, PlannedSpeedUpIsNearTheMeasuredOne) {
  const int nodes[] = {8, 12, 16, 20, 24, 28, 32};

  const struct {
    const char* device;
    double speed_ups[7];
    double error_percent;
  } rows[] = {
      {"M60", {4.539, 6.445, 7.968, 9.397, 10.753, 12.718, 12.532}, 6.9},
      {"T4", {2.274, 3.065, 3.743, 4.323, 4.786, 5.490, 5.251}, 4.5},
      {"A10G", {1.027, 1.376, 1.697, 2.053, 2.235, 2.747, 2.879}, 17.8}};

  for (const auto& row : rows) {
    double error = 0;
    for (size_t i = 0; i < 7; ++i) {
      const double planned = PlannedSpeedUp(PublishedTrainerOf(row.device)->curve, nodes[i]);
      error += std::abs(planned - row.speed_ups[i]) / std::max(planned, row.speed_ups[i]) / 7;
    }
    EXPECT_NEAR(error * 100, row.error_percent, 0.1) << row.device;
  }
}

/// G0 to G10: what the released program answers for each price of an hour.
TEST(DeepVmTest, AnswersOfTheReleasedProgramAreReproduced) {
  const struct {
    double usd;
    const char* best;
    const char* without_scaling;
    const char* most_nodes;
    const char* fastest_type;
  } rows[] = {
      {0.5, "TI(g4dn,2; t3,1) 17.2015 0.4820", "TI(g4dn,2; t3,1)", "none", "none"},
      {1, "TI(g4dn,5; c4,1) 43.0038 0.9880", "TI(g4dn,5; c4,1)", "SA(g4dn,4)", "SA(g4dn,4)"},
      {2, "TI(g4dn,11; c4,1) 94.6084 1.9348", "TI(g4dn,11; c4,1)", "SA(g4dn,10)", "SA(g5,4)"},
      {3, "TI(g4dn,17; c5,1) 145.4322 2.8526", "TI(g4dn,17; c5,1)", "SA(g4dn,16)", "SA(g5,7)"},
      {4, "TI(g4dn,23; t3,2) 187.4752 3.9622", "SA(g4dn,23)", "SA(g4dn,23)", "SA(g5,10)"},
      {4.5, "TI(g4dn,27; c5n,1) 207.4173 4.4766", "TI(g4dn,27; c5n,1)", "SA(g4dn,26)", "SA(g5,12)"},
      {5, "TI(g4dn,29; t3,2) 215.0621 4.9090", "SA(g4dn,29)", "SA(g4dn,29)", "SA(g5,14)"},
      {6, "TI(g4dn,31; c4,3) 221.3704 5.4888", "SA(g4dn,31)", "SA(g4dn,32)", "SA(g5,17)"},
      {9, "TI(g5,28; t3,2) 230.3144 8.7832", "SA(g4dn,31)", "SA(g3s,32)", "SA(g5,27)"},
      {10, "TI(g5,31; c4,3) 251.9042 9.9528", "SA(g4dn,31)", "SA(g3s,32)", "SA(g5,30)"}};

  EXPECT_TRUE(SolveDeepVm(DeepVmProgramInput(0.3), DeepVmTies::kPublished).empty());
  EXPECT_FALSE(SolveWithoutScaling(DeepVmProgramInput(0.3)));
  EXPECT_FALSE(MostNodes(DeepVmProgramInput(0.3)));
  EXPECT_FALSE(FastestType(DeepVmProgramInput(0.3)));
  for (const auto& row : rows) {
    const DeepVmProblem problem = DeepVmProgramInput(row.usd);
    EXPECT_THAT(TopOf(problem, DeepVmTies::kPublished, 1), ElementsAre(row.best));
    EXPECT_EQ(TextOf(problem, SolveWithoutScaling(problem)), row.without_scaling) << row.usd;
    EXPECT_EQ(TextOf(problem, MostNodes(problem)), row.most_nodes) << row.usd;
    EXPECT_EQ(TextOf(problem, FastestType(problem)), row.fastest_type) << row.usd;
  }
}

/// G1 to G10: its best with a single anchor, whose checkpoints need no remote node, and the speed
/// of what it and its baselines choose.
TEST(DeepVmTest, SingleAnchorsAndSpeedsOfTheReleasedProgramAreReproduced) {
  constexpr double kNotPublished = -1;

  const struct {
    double usd;
    std::vector<std::string> anchored;
    double speed;
    double fastest_type_speed;
  } rows[] = {
      {0.5, {}, 754, 0},
      {1, {"SA(g4dn,4) 34.4030 0.9994"}, 1885, 1508},
      {2, {"SA(g4dn,10) 86.0076 1.9462"}, 4147, 2784},
      {3, {"SA(g4dn,16) 137.2706 2.8930"}, 6374.78, 4872},
      {4, {"SA(g4dn,23) 187.4752 3.9976"}, 8217.66, 6960},
      {4.5, {"SA(g4dn,26) 203.0386 4.4710"}, 9091.79, 8352},
      {5, {"SA(g4dn,29) 215.0621 4.9444"}, 9426.89, 9744},
      {6, {"SA(g4dn,31) 221.3704 5.2600"}, 9703.40, 11832},
      {9, {"SA(g5,27) 222.7168 8.8528"}, kNotPublished, kNotPublished},
      {10, {"SA(g5,30) 244.9238 9.7582"}, 21117.97, 20532.78}};

  for (const auto& row : rows) {
    const DeepVmProblem problem = DeepVmProgramInput(row.usd);
    DeepVmProblem without_remotes = problem;
    without_remotes.remotes.clear();
    EXPECT_EQ(TopOf(without_remotes, DeepVmTies::kPublished, 1), row.anchored) << row.usd;
    if (row.speed == kNotPublished) {
      continue;
    }
    const DeepVmChoice best = SolveDeepVm(problem, DeepVmTies::kPublished)[0];
    EXPECT_NEAR(SpeedOf(problem, best), row.speed, 0.005) << row.usd;
    const std::optional<DeepVmChoice> fastest = FastestType(problem);
    EXPECT_NEAR(fastest ? SpeedOf(problem, *fastest) : 0, row.fastest_type_speed, 0.005) << row.usd;
  }
  const DeepVmProblem nine = DeepVmProgramInput(9);
  EXPECT_NEAR(MostNodes(nine)->usd_per_hour, 7.7250, 1e-9);
  const DeepVmProblem ten = DeepVmProgramInput(10);
  EXPECT_NEAR(SpeedOf(ten, *MostNodes(ten)), 2641.75, 0.005);
  EXPECT_NEAR(SolveWithoutScaling(ten)->score, 266.6236e6, 50);
}

/// Fig. 8 of the paper draws these three and both baselines.
TEST(DeepVmTest, TheThreeBestAtThreeDollarsAreThoseOfFigureEight) {
  const DeepVmProblem problem = DeepVmProgramInput(3);
  const auto three = ElementsAre(
      "TI(g4dn,17; c5,1) 145.4322 2.8526",
      "TI(g4dn,17; m6i,1) 145.4322 2.8746",
      "TI(g4dn,17; c5n,1) 145.4322 2.8986");
  EXPECT_THAT(TopOf(problem, DeepVmTies::kPublished, 3), three);
  EXPECT_THAT(TopOf(problem, DeepVmTies::kCheaper, 3), three);
  EXPECT_NEAR(SolveWithoutScaling(problem)->score, 146.2129e6, 50);
  EXPECT_NEAR(SpeedOf(problem, SolveDeepVm(problem, DeepVmTies::kPublished)[0]), 6374.78, 0.005);
  EXPECT_NEAR(SpeedOf(problem, *MostNodes(problem)), 6017.03, 0.005);
  EXPECT_NEAR(MostNodes(problem)->usd_per_hour, 2.8930, 1e-9);
  EXPECT_NEAR(SpeedOf(problem, *FastestType(problem)), 4872, 1e-6);
  EXPECT_NEAR(FastestType(problem)->usd_per_hour, 2.8168, 1e-9);
}

/// Points of Fig. 8: ResNet-50 until it was trained, and what that cost to a hundredth of a cent.
TEST(DeepVmTest, RunsOfFigureEightCostTheirTimeAtOurPrices) {
  const DeepVmProblem problem = DeepVmProgramInput(3);
  std::vector<DeepVmChoice> fleets = SolveDeepVm(problem, DeepVmTies::kPublished, 3);
  fleets.push_back(*MostNodes(problem));
  fleets.push_back(*FastestType(problem));
  const double seconds[] = {251.25, 252.13, 251.13, 296.77, 493.93};
  const double usd[] = {0.1991, 0.2013, 0.2022, 0.2385, 0.3865};
  ASSERT_EQ(fleets.size(), 5U);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(fleets[i].usd_per_hour * seconds[i] / 3600, usd[i], 0.00005) << i;
  }
}

/// G11 to G13: what a checkpoint and its buffers ask of a remote node.
TEST(DeepVmTest, RemotesNeedMemoryForCheckpoints) {
  DeepVmProblem problem = DeepVmProgramInput(3);
  problem.memory_gib_min = 16;
  EXPECT_THAT(
      TopOf(problem, DeepVmTies::kPublished, 1), ElementsAre("TI(g4dn,17; m6i,1) 145.4322 2.8746"));
  problem.memory_gib_min = 20;
  EXPECT_THAT(
      TopOf(problem, DeepVmTies::kPublished, 2),
      ElementsAre("SA(g4dn,16) 137.2706 2.8930", "TI(g4dn,15; d3,1) 128.9038 2.8660"));
  problem.memory_gib_min = 100;
  EXPECT_THAT(
      TopOf(problem, DeepVmTies::kPublished, 3),
      ElementsAre(
          "SA(g4dn,16) 137.2706 2.8930",
          "SA(g4dn,15) 128.9038 2.7352",
          "SA(g4dn,14) 120.3947 2.5774"));
}

TEST(DeepVmTest, AmongEqualFleetsTheCheaperOneIsFirstOnRequest) {
  EXPECT_THAT(
      TopOf(DeepVmProgramInput(6), DeepVmTies::kCheaper, 1),
      ElementsAre("TI(g4dn,31; t3,2) 221.3704 5.2246"));
}

/// Fig. 7: its curves need the nodes twice; without that the fastest type beats DeepVM.
TEST(DeepVmTest, ThePublishedSimulationCountsNodesTwice) {
  const struct {
    double usd;
    const char* best;
    const char* without_scaling;
    const char* most_nodes;
    const char* fastest_type;
  } rows[] = {
      {0.5, "TI(D,2; t3,1)", "TI(D,2; t3,1)", "SA(J,5)", "SA(H,4)"},
      {1, "TI(H,11; t3,1)", "TI(H,11; t3,1)", "SA(J,12)", "SA(D,3)"},
      {2, "TI(D,11; t3,1)", "SA(H,24)", "SA(J,27)", "SA(F,3)"},
      {3, "TI(D,17; c5,1)", "SA(H,37)", "SA(J,43)", "SA(I,3)"},
      {5, "TI(D,28; t3,2)", "SA(H,63)", "SA(J,73)", "SA(I,7)"},
      {6, "SA(D,34)", "SA(H,77)", "SA(J,88)", "SA(I,9)"},
      {8, "SA(D,46)", "SA(H,103)", "SA(J,118)", "SA(I,14)"},
      {10, "SA(D,58)", "SA(H,129)", "SA(J,149)", "SA(I,18)"}};

  for (const auto& row : rows) {
    const DeepVmProblem problem = DeepVmSimulationInput(row.usd);
    const std::vector<DeepVmChoice> best =
        SolveDeepVm(problem, DeepVmTies::kPublishedSimulation, 1);
    ASSERT_FALSE(best.empty());
    EXPECT_EQ(TextOf(problem, std::optional(best[0])), row.best) << row.usd;
    EXPECT_EQ(TextOf(problem, SolveWithoutScaling(problem)), row.without_scaling) << row.usd;
    EXPECT_EQ(TextOf(problem, MostNodes(problem)), row.most_nodes) << row.usd;
    EXPECT_EQ(TextOf(problem, FastestType(problem)), row.fastest_type) << row.usd;
  }
  EXPECT_NEAR(
      SolveDeepVm(DeepVmSimulationInput(2), DeepVmTies::kPublishedSimulation, 1)[0].score,
      167.949e6,
      500);
  const DeepVmProblem half = DeepVmSimulationInput(5);
  EXPECT_NEAR(SpeedOf(half, SolveDeepVm(half, DeepVmTies::kPublished)[0]), 13628, 0.5);
  EXPECT_NEAR(SpeedOf(half, *FastestType(half)), 6300, 0.5);
  EXPECT_NEAR(SpeedOf(half, *SolveWithoutScaling(half)), 3000, 0.5);
  EXPECT_NEAR(SpeedOf(half, *MostNodes(half)), 1990, 0.5);
  const DeepVmProblem problem = DeepVmSimulationInput(10);
  EXPECT_NEAR(SolveDeepVm(problem, DeepVmTies::kPublished)[0].score, 305.434e6, 500);
  const DeepVmChoice fleets[] = {
      SolveDeepVm(problem, DeepVmTies::kPublished)[0],
      *SolveWithoutScaling(problem),
      *MostNodes(problem),
      *FastestType(problem)};
  const double speeds[] = {13999, 3000, 2000, 14943};
  const double shares[] = {1, 0.477, 0.367, 0.331};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(SpeedOf(problem, fleets[i]), speeds[i], 0.5) << i;
    const double share = PublishedSimulationSpeedOf(problem, fleets[i]) /
                         PublishedSimulationSpeedOf(problem, fleets[0]);
    EXPECT_NEAR(share, shares[i], 0.001) << i;
  }
}

}  // namespace
}  // namespace ps::provisioner
