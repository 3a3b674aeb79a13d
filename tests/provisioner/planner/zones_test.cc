// Memory, zones, what crosses them, start-up and quotas of vCPUs, against a search through all
// fleets and places that shares nothing with the planner but the models.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/numbers.h"
#include "provisioner/planner/planner.h"
#include "tests/provisioner/planner/planning_samples.h"

namespace ps::provisioner {
namespace {

constexpr double kUsdNone = std::numeric_limits<double>::infinity();

/// A fleet as the search through all of them sees it.
struct BruteFleet {
  std::vector<int> counts;
  int server = 0;
  int hosts = 1;
  double usd = 0;
};

class BruteForce {
 public:
  explicit BruteForce(const PlanProblem& problem) : problem_(problem), judge_(problem) {}

  /// All that meet the goal, the cheapest first, each in its cheapest places.
  std::vector<BruteFleet> Run() {
    for (size_t s = 0; s < problem_.servers.size(); ++s) {
      const ServerOffer& server = problem_.servers[s];
      for (int hosts = server.hosts_min; hosts <= server.hosts_max; ++hosts) {
        std::vector<int> counts(problem_.offers.size(), 0);
        Count(0, static_cast<int>(s), hosts, &counts);
      }
    }
    std::ranges::sort(found_, {}, &BruteFleet::usd);
    return found_;
  }

 private:
  void Count(size_t i, int server, int hosts, std::vector<int>* counts) {
    if (i == counts->size()) {
      See(server, hosts, *counts);
      return;
    }
    for (int n = problem_.offers[i].held; n <= problem_.offers[i].quota; ++n) {
      (*counts)[i] = n;
      Count(i + 1, server, hosts, counts);
    }
  }

  bool HasRoom(const ServerOffer& server, int hosts, const std::vector<int>& counts) const {
    int workers = 0;
    std::vector<int> vcpus(problem_.vcpu_quotas.size(), 0);
    for (size_t i = 0; i < counts.size(); ++i) {
      workers += counts[i];
      if (problem_.offers[i].vcpu_quota >= 0) {
        vcpus[static_cast<size_t>(problem_.offers[i].vcpu_quota)] +=
            counts[i] * problem_.offers[i].vcpus;
      }
    }
    if (server.vcpu_quota >= 0) {
      vcpus[static_cast<size_t>(server.vcpu_quota)] += hosts * server.vcpus;
    }
    for (size_t q = 0; q < vcpus.size(); ++q) {
      if (vcpus[q] > problem_.vcpu_quotas[q].vcpus) {
        return false;
      }
    }
    return workers > 0 && server.memory.BytesOf(workers, hosts) <= server.memory.room_bytes;
  }

  void See(int s, int hosts, const std::vector<int>& counts) {
    const ServerOffer& server = problem_.servers[static_cast<size_t>(s)];
    if (!HasRoom(server, hosts, counts)) {
      return;
    }
    std::vector<int> of_class(problem_.speed->classes().size(), 0);
    int workers = 0;
    double start_s = server.start_up_s;
    bool runs = true;
    for (size_t i = 0; i < counts.size(); ++i) {
      of_class[static_cast<size_t>(problem_.offers[i].worker_class)] += counts[i];
      workers += counts[i];
      runs = runs && counts[i] == problem_.offers[i].held;
      if (counts[i] > problem_.offers[i].held) {
        start_s = std::max(start_s, problem_.offers[i].start_up_s);
      }
    }
    start_s =
        runs ? 0 : start_s * (problem_.goal.counts_start_up ? 1 : 0) + problem_.goal.takeover_s;
    const ServerSide side{hosts, server.link_bytes_per_s};
    const SpeedPrediction speed = problem_.speed->Predict(of_class, side);
    const FleetTraits traits = TraitsOf(speed, workers);
    const double steps = problem_.loss->StepsTo(problem_.goal.loss, traits);
    const double run_s = steps / speed.steps_per_s;
    if (!std::isfinite(run_s)) {
      return;
    }
    const std::vector<double> step_s = problem_.speed->StepSeconds(of_class, side);
    double shares = 0;
    for (size_t k = 0; k < step_s.size(); ++k) {
      shares += of_class[k] / step_s[k];
    }
    usd_ = kUsdNone;
    step_s_ = &step_s;
    per_share_ = steps / shares;
    const double seconds = run_s + start_s;
    Places(0, server, counts, seconds, server.usd_per_hour * hosts * seconds / 3600);
    const double sure_s = run_s * judge_.QuantileFactor(traits, hosts) + start_s;
    const double scale = seconds > 0 ? sure_s / seconds : 1;
    if (sure_s <= problem_.goal.seconds_max && usd_ * scale <= problem_.goal.usd_max) {
      found_.push_back({counts, s, hosts, usd_});
    }
  }

  /// Every place for every offer.
  void Places(
      size_t i,
      const ServerOffer& server,
      const std::vector<int>& counts,
      double seconds,
      double usd) {
    if (i == counts.size()) {
      usd_ = std::min(usd_, usd);
      return;
    }
    const Offer& offer = problem_.offers[i];
    const double steps =
        counts[i] * per_share_ / (*step_s_)[static_cast<size_t>(offer.worker_class)];
    if (offer.places.empty() || counts[i] == 0) {
      Places(i + 1, server, counts, seconds, usd + counts[i] * offer.usd_per_hour * seconds / 3600);
      return;
    }
    for (const OfferPlace& place : offer.places) {
      const bool crosses = place.zone >= 0 && server.zone >= 0 && place.zone != server.zone;
      const double usd_per_byte = crosses ? problem_.usd_per_byte[static_cast<size_t>(place.zone)]
                                                                 [static_cast<size_t>(server.zone)]
                                          : 0;
      Places(
          i + 1,
          server,
          counts,
          seconds,
          usd + counts[i] * place.usd_per_hour * seconds / 3600 +
              steps * problem_.bytes_per_step * usd_per_byte);
    }
  }

  const PlanProblem& problem_;
  const FleetJudge judge_;
  std::vector<BruteFleet> found_;
  // Of the fleet in hand.
  const std::vector<double>* step_s_ = nullptr;
  double per_share_ = 0;
  double usd_ = 0;
};

struct ZonesCase {
  const char* what;
  uint64_t seed;
  int problems;
  SampleShape shape;
};

constexpr ZonesCase kZonesCases[] = {
    {"zones", 1, 400, {.classes = 3, .quota_max = 3, .has_zones = true}},
    {"zones, two markets",
     10'000,
     400,
     {.classes = 3, .quota_max = 2, .has_two_markets = true, .has_zones = true}},
    {"queue, zones, start",
     20'000,
     250,
     {.classes = 3,
      .quota_max = 3,
      .is_queue = true,
      .has_curves = true,
      .has_zones = true,
      .has_start_up = true}},
    {"start alone",
     30'000,
     400,
     {.classes = 4, .quota_max = 3, .server_offers = 2, .has_start_up = true}},
    {"vCPUs", 40'000, 400, {.classes = 4, .quota_max = 3, .has_vcpus = true}},
    {"held, zones, start, vCPUs",
     50'000,
     250,
     {.classes = 3,
      .quota_max = 3,
      .has_held = true,
      .has_zones = true,
      .has_start_up = true,
      .has_vcpus = true}},
    {"prototype, zones",
     60'000,
     200,
     {.classes = 3, .quota_max = 3, .variant = SpotDnnVariant::kPrototype, .has_zones = true}},
    {"all",
     70'000,
     400,
     {.classes = 3,
      .quota_max = 3,
      .is_queue = true,
      .has_memory = true,
      .has_zones = true,
      .has_start_up = true,
      .has_vcpus = true}},
};

TEST(ZonesTest, ExactFindsWhatASearchThroughAllFleetsAndPlacesFinds) {
  int feasible = 0;
  int crossing = 0;
  for (const ZonesCase& some : kZonesCases) {
    for (int i = 0; i < some.problems; ++i) {
      SCOPED_TRACE(std::string(some.what) + ", problem " + std::to_string(i));
      PlanningSample sample = RandomSample(some.seed + static_cast<uint64_t>(i), some.shape);
      // Of one class's offers in two markets some fleets are never better, and not in the list.
      sample.problem.answers_max = some.shape.has_two_markets ? 1 : 3;
      const std::vector<BruteFleet> all = BruteForce(sample.problem).Run();
      const Result<PlanAnswer> answer = MakeStrategy("exact")->Solve(sample.problem);
      if (!answer.ok()) {
        EXPECT_TRUE(all.empty()) << answer.status();
        continue;
      }
      ASSERT_EQ(
          answer->best.size(),
          std::min(all.size(), static_cast<size_t>(sample.problem.answers_max)));
      for (size_t k = 0; k < answer->best.size(); ++k) {
        const FleetChoice& choice = answer->best[k];
        ASSERT_NEAR(choice.usd, all[k].usd, all[k].usd * 1e-6) << "answer " << k;
        crossing += choice.traffic_usd > 0 ? 1 : 0;
      }
      feasible += all.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(feasible, 1000) << "problems that say something";
  EXPECT_GT(crossing, 300) << "fleets that pay for traffic";
}

/// Every strategy counts what crosses, and none finds less than the least.
TEST(ZonesTest, NoStrategyIsCheaperThanTheCheapestFleet) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    PlanningSample sample =
        RandomSample(seed, {.classes = 3, .quota_max = 3, .has_zones = true, .has_vcpus = true});
    const std::vector<BruteFleet> all = BruteForce(sample.problem).Run();
    for (const char* const name : {"exhaustive", "homogeneous", "spotdnn", "ideal"}) {
      const Result<PlanAnswer> answer = MakeStrategy(name)->Solve(sample.problem);
      if (!answer.ok() || answer->best.empty()) {
        continue;
      }
      ASSERT_FALSE(all.empty()) << name;
      const FleetChoice& choice = answer->best.front();
      const auto same = std::ranges::find_if(all, [&](const BruteFleet& fleet) {
        return fleet.counts == choice.counts && fleet.server == choice.server_offer &&
               fleet.hosts == choice.server_hosts;
      });
      if (same == all.end()) {
        EXPECT_STREQ(name, "ideal") << "it alone may miss the goal; seed " << seed;
        continue;
      }
      EXPECT_NEAR(choice.usd, same->usd, same->usd * 1e-6) << name << ", seed " << seed;
      ++compared;
    }
  }
  EXPECT_GT(compared, 50);
}

}  // namespace
}  // namespace ps::provisioner
