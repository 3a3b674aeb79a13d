// The soonest fleet of all AWS types, which are too many to try every fleet.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "provisioner/model/job_models.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/objective.h"
#include "provisioner/planner/plan_setup.h"
#include "ps/base/file.h"

namespace ps::provisioner {
namespace {

constexpr char kCatalog[] = "configs/catalog/aws.json";
constexpr char kProfile[] = "configs/profiles/resnet110_cifar100_spotdnn.json";

/// The shipped profile, as if the job had been profiled on every type with an accelerator, each
/// with a speed of its own.
proto::JobProfile ProfileOfAllTypes(const proto::Catalog& catalog) {
  proto::JobProfile profile = proto::ParseProfile(ReadFile(kProfile).value(), kProfile).value();
  const proto::WorkerProfile some = profile.workers.front();
  profile.workers.clear();
  for (const proto::InstanceType& type : catalog.types) {
    if (type.devices > 0 && !type.device.empty()) {
      proto::WorkerProfile worker = some;
      worker.instance_type = type.name;
      worker.compute_s = 1.6 / (type.devices + 0.07 * static_cast<double>(profile.workers.size()));
      profile.workers.push_back(worker);
    }
  }
  return profile;
}

TEST(LargeCatalogTest, TheSoonestFleetOfAllTypesIsFoundAndProvenWithFewFleets) {
  const proto::Catalog catalog = proto::ParseCatalog(ReadFile(kCatalog).value(), kCatalog).value();
  const proto::JobProfile profile = ProfileOfAllTypes(catalog);
  ASSERT_GT(profile.workers.size(), 30U);
  for (const double confidence : {0.5, 0.9}) {
    const auto models = BuildJobModels(catalog, profile, {});
    ASSERT_TRUE(models.ok()) << models.status();
    PlanSetup setup;
    setup.goal.loss = 0.8;
    setup.goal.seconds_max = std::numeric_limits<double>::infinity();
    setup.goal.usd_max = std::numeric_limits<double>::infinity();
    setup.goal.confidence = confidence;
    const auto problem = MakePlanProblem(catalog, *models, setup);
    ASSERT_TRUE(problem.ok()) << problem.status();
    const auto answer = SolveForTime(*problem);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_FALSE(answer->best.empty());
    EXPECT_NE(answer->certainty, proto::Certainty::kBestFound);
    // One search after the other for ever tighter times judged 14 million.
    EXPECT_LT(answer->fleets_evaluated, 1'000'000U);
    RecordProperty("fleets", std::to_string(answer->fleets_evaluated));

    // No fleet that one worker or host more, less or instead makes is sooner.
    FleetJudge judge(*problem);
    const auto seconds_of = [&](const FleetChoice& choice) {
      return judge.SecondsAtConfidence(
          TraitsOf(choice.speed, WorkersOf(choice.counts)),
          choice.server_hosts,
          choice.seconds,
          choice.start_s);
    };
    const FleetChoice& best = answer->best.front();
    const double best_s = seconds_of(best);
    int others = 0;
    const auto none = static_cast<int>(best.counts.size());
    for (int out = 0; out <= none; ++out) {
      for (int in = 0; in <= none; ++in) {
        std::vector<int> counts = best.counts;
        if (out < none) {
          --counts[static_cast<size_t>(out)];
        }
        if (in < none) {
          ++counts[static_cast<size_t>(in)];
        }
        bool is_offered = true;
        for (size_t i = 0; i < counts.size(); ++i) {
          is_offered = is_offered && counts[i] >= 0 && counts[i] <= problem->offers[i].quota;
        }
        for (int hosts = best.server_hosts - 1; is_offered && hosts <= best.server_hosts; ++hosts) {
          if (hosts >= problem->servers[static_cast<size_t>(best.server_offer)].hosts_min &&
              judge.Fits(counts, best.server_offer, hosts)) {
            ++others;
            EXPECT_GE(
                seconds_of(judge.Choose(counts, best.server_offer, hosts)), best_s * (1 - 1e-9))
                << out << " " << in << " " << hosts;
          }
        }
      }
    }
    EXPECT_GT(others, 100);
  }
}

}  // namespace
}  // namespace ps::provisioner
