// Times for numbers of local steps that no profile saw, against simulated links.

#include <gtest/gtest.h>

#include <vector>

#include "provisioner/model/job_models.h"
#include "tests/provisioner/model/link_simulation.h"

namespace ps::provisioner {
namespace {

constexpr double kLinkBytesPerS = 20e6 / 8;
constexpr double kModelBytes = 3.6e6;  // of 0.9 million parameters
constexpr double kTransferS = kModelBytes / kLinkBytesPerS;
constexpr double kMinibatchS = 0.138;  // 8 samples at 58 samples/s

struct Fleet {
  const char* name;
  std::vector<double> slowness;
};

/// Exchanges one after the other, as profiled with single minibatches.
proto::JobProfile ProfileOf(const Fleet& fleet) {
  proto::JobProfile profile;
  profile.job = "gpt";
  profile.parameter_bytes = kModelBytes;
  profile.push_bytes = kModelBytes;
  profile.pull_bytes = kModelBytes;
  for (size_t i = 0; i < fleet.slowness.size(); ++i) {
    profile.workers.push_back(
        {.instance_type = "w" + std::to_string(i),
         .minibatch = 8,
         .compute_s = kMinibatchS * fleet.slowness[i]});
  }
  return profile;
}

proto::Catalog CatalogOf(const proto::JobProfile& profile) {
  proto::Catalog catalog;
  for (const proto::WorkerProfile& worker : profile.workers) {
    proto::InstanceType& type = catalog.types.emplace_back();
    type.name = worker.instance_type;
    type.devices = 1;
    type.network_gbit_per_s = 10;
  }
  return catalog;
}

double Predicted(const Fleet& fleet, int local_steps) {
  const proto::JobProfile profile = ProfileOf(fleet);
  JobModelOptions options;
  options.exchange.local_steps = local_steps;
  const Result<JobModels> models = BuildJobModels(CatalogOf(profile), profile, options);
  PS_CHECK(models.ok()) << models.status();
  const std::vector<int> counts(fleet.slowness.size(), 1);
  return models->speed->Predict(counts, {.hosts = 1, .link_bytes_per_s = kLinkBytesPerS})
      .steps_per_s;
}

/// Minibatches of all workers in a second; the simulation's unit of time is one transfer.
double Simulated(const Fleet& fleet, int local_steps) {
  constexpr uint64_t kRuns = 3;
  constexpr double kRounds = 2000;
  LinkSimulation simulation;
  for (const double slowness : fleet.slowness) {
    simulation.compute_s.push_back(local_steps * kMinibatchS * slowness / kTransferS);
  }
  const double until = kRounds * (2 + simulation.compute_s.back());
  double sum = 0;
  for (simulation.seed = 0; simulation.seed < kRuns; ++simulation.seed) {
    sum += SimulateLinks(simulation, until) / kRuns;
  }
  return sum * local_steps / kTransferS;
}

TEST(LocalStepsTime, OnLinksOf20MbitItIsWithinThreePercentForStepsThatNoProfileSaw) {
  const Fleet fleets[] = {
      {"one", {1}},
      {"two unequal", {1, 1.3}},
      {"three unequal", {1, 1.3, 2.6}},
      {"four unequal", {1, 1.3, 2.6, 5.7}},
      {"eight unequal", {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7}}};
  for (const Fleet& fleet : fleets) {
    for (const int local_steps : {1, 8, 50}) {
      EXPECT_NEAR(Predicted(fleet, local_steps) / Simulated(fleet, local_steps), 1, 0.03)
          << fleet.name << ", " << local_steps;
    }
  }
}

// Two equal workers that compute a tenth of what a transfer takes meet at each exchange, and share
// both directions one after the other. The queue does not know that; longer rounds part them.
TEST(LocalStepsTime, TwoEqualWorkersMeetWithSingleMinibatchesAlone) {
  const Fleet fleet = {"two equal", {1, 1}};
  for (const int local_steps : {8, 50}) {
    EXPECT_NEAR(Predicted(fleet, local_steps) / Simulated(fleet, local_steps), 1, 0.03)
        << local_steps;
  }
  EXPECT_NEAR(Predicted(fleet, 1) / Simulated(fleet, 1), 1.13, 0.03);
}

}  // namespace
}  // namespace ps::provisioner
