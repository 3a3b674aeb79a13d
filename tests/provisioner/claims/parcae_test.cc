// Parcae's worked example, its costs, and the plans that it published for an hour.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "provisioner/claims/parcae_pipelines.h"
#include "provisioner/claims/parcae_policies.h"
#include "provisioner/strategies/look_ahead.h"
#include "tests/provisioner/claims/published.h"

namespace ps::provisioner {
namespace {

/// Fig. 3 of the paper: six machines, pipelines of three give 50 samples/s, of two 30.
TEST(ParcaeTest, LiveputIsTheMeanOverWhatMayBeLost) {
  const std::vector<double> threes = {0, 50, 100};
  const std::vector<double> twos = {0, 30, 60, 90};
  const double by_three[] = {100, 50, 20};
  const double by_two[] = {90, 60, 36};
  for (int lost = 0; lost < 3; ++lost) {
    EXPECT_NEAR(LiveputOf({2, 3}, lost, threes), by_three[lost], 1e-9) << lost;
    EXPECT_NEAR(LiveputOf({3, 2}, lost, twos), by_two[lost], 1e-9) << lost;
  }
}

TEST(ParcaeTest, LiveputOfWorkersIsThatOfPipelinesOfOneStage) {
  const std::vector<double> rates = {0, 10, 19, 27, 34, 40};
  for (uint32_t lost = 0; lost <= 5; ++lost) {
    EXPECT_NEAR(
        LiveputOfWorkers(5, 5, lost, rates), LiveputOf({5, 1}, static_cast<int>(lost), rates), 1e-9)
        << lost;
  }
  // 2 of 4 machines have workers, and 2 go: of 6 choices 1 hits both, 4 hit one.
  EXPECT_NEAR(LiveputOfWorkers(4, 2, 2, rates), (0 + 4 * 10 + 19) / 6.0, 1e-12);
  // Both workers and spares by the thousand.
  std::vector<double> line;
  for (int n = 0; n <= 5000; ++n) {
    line.push_back(n);
  }
  EXPECT_NEAR(LiveputOfWorkers(10'000, 5000, 4000, line), 3000, 1e-6);
}

/// Seconds that the released cost model gives, to a tenth.
TEST(ParcaeTest, RestartsCostWhatTheReleasedModelSays) {
  const struct {
    const char* model;
    ParcaePlan plan;
    double add_s;
    double remove_s;
  } rows[] = {
      {"gpt-1.5b", {4, 8}, 32.2, 4.9},
      {"gpt-6.7b", {2, 12}, 36.3, 12.7},
      {"bert", {8, 4}, 10.0, 2.7},
      {"resnet152", {16, 2}, 13.1, 2.2},
      {"vgg19", {16, 2}, 22.9, 11.1}};

  for (const auto& row : rows) {
    const ParcaeModel model = ParcaeCaseOf(row.model).model;
    EXPECT_NEAR(ParcaeRestartMs(model, row.plan, true) / 1000, row.add_s, 0.06) << row.model;
    EXPECT_NEAR(ParcaeRestartMs(model, row.plan, false) / 1000, row.remove_s, 0.06) << row.model;
  }
  EXPECT_NEAR(ParcaeTransferMs(1 << 20), 1.428108, 1e-9);
  EXPECT_NEAR(ParcaeTransferMs(2147483648.0), 2396.5118, 1e-4);
}

/// parcae_trace_test.cc has the whole trace, in an optimised build.
TEST(ParcaeTest, PlansOfTheFirstHourWithTrueFuturesAreThePublishedOnes) {
  for (const char* name : {"gpt-6.7b", "bert", "vgg19"}) {
    const ParcaeCase some = ParcaeCaseOf(name);
    ParcaeCosts costs(some.model, 40, 1);
    EXPECT_EQ(RunParcaePolicy(some, &costs, ParcaeOracle(), 60).as_truth, 60U) << name;
  }
}

/// On demand: 32 machines at 3.06 USD/h with the best plan.
TEST(ParcaeTest, CostsOnDemandAreThePapers) {
  const auto usd_of = [](const char* name, double tokens) {
    double best = 0;
    const ParcaeCase some = ParcaeCaseOf(name);
    for (const auto& [plan, samples_per_s] : some.model.samples_per_s) {
      best = std::max(best, samples_per_s);
    }
    return 32 * 3.06 / 3600 / best / tokens * 1e6;
  };
  EXPECT_NEAR(usd_of("resnet152", 1), 8.68, 0.005);
  EXPECT_NEAR(usd_of("gpt-6.7b", 1024), 2.39, 0.005);
  EXPECT_NEAR(usd_of("gpt-1.5b", 1024), 0.62, 0.01);
  EXPECT_NEAR(usd_of("vgg19", 1), 12.43, 0.03);
  EXPECT_NEAR(usd_of("bert", 512), 0.10, 0.005);
}

}  // namespace
}  // namespace ps::provisioner
