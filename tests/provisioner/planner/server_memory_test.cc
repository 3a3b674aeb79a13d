#include "provisioner/planner/server_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/planner.h"
#include "tests/provisioner/planner/planning_samples.h"

namespace ps::provisioner {
namespace {

/// Whether each host has room for what it has to keep, added up piece by piece.
bool DoHold(const ServerOffer& server, int workers, int hosts) {
  const ServerNeed& need = server.memory.need;
  double bytes = need.host_bytes + need.shared_bytes / hosts;
  double held = 0;
  for (int i = 0; i < workers; ++i) {
    bytes += need.worker_bytes / hosts;
    held += need.held_bytes / hosts;
  }
  return bytes + std::min(held, need.held_bytes_max) <= server.memory.room_bytes;
}

/// The best fleets that quotas and memory allow: all of them are looked at.
std::vector<FleetChoice> BestByBruteForce(const PlanProblem& problem) {
  FleetJudge judge(problem);
  std::vector<FleetChoice> best;
  for (size_t server = 0; server < problem.servers.size(); ++server) {
    const ServerOffer& side = problem.servers[server];
    for (int hosts = side.hosts_min; hosts <= side.hosts_max; ++hosts) {
      int fleets = 1;
      for (const Offer& offer : problem.offers) {
        fleets *= offer.quota + 1;
      }
      for (int number = 1; number < fleets; ++number) {
        std::vector<int> counts;
        int left = number;
        for (const Offer& offer : problem.offers) {
          counts.push_back(left % (offer.quota + 1));
          left /= offer.quota + 1;
        }
        const FleetChoice choice = judge.Choose(counts, static_cast<int>(server), hosts);
        const Verdict verdict = judge.Judge(counts, static_cast<int>(server), hosts);
        if (DoHold(side, WorkersOf(counts), hosts) && judge.MeetsGoal(verdict)) {
          best.push_back(choice);
        }
      }
    }
  }
  std::ranges::sort(best, IsBetter);
  best.resize(std::min(best.size(), static_cast<size_t>(problem.answers_max)));
  return best;
}

constexpr SampleShape kShape = {
    .classes = 3, .quota_max = 4, .server_offers = 2, .hosts_max = 4, .has_memory = true};

TEST(ServerMemoryTest, TheMostWorkersAreThoseThatTheHostsHold) {
  int limited = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const PlanningSample sample = RandomSample(seed, kShape);
    for (const ServerOffer& server : sample.problem.servers) {
      int before = 0;
      for (int hosts = 1; hosts <= 8; ++hosts) {
        const int most = server.memory.WorkersMax(hosts);
        EXPECT_GE(most, before) << "seed " << seed;
        before = most;
        constexpr int kMany = 1000;
        EXPECT_EQ(
            DoHold(server, std::min(most, kMany), hosts), most > 0 || DoHold(server, 0, hosts))
            << "seed " << seed << ", " << hosts << " hosts";
        if (most < kMany) {
          ++limited;
          EXPECT_FALSE(DoHold(server, most + 1, hosts)) << "seed " << seed << ", " << hosts;
        }
      }
    }
  }
  EXPECT_GT(limited, 500);
}

TEST(ServerMemoryTest, NothingSaidLimitsNothing) {
  EXPECT_EQ(ServerMemory().WorkersMax(1), std::numeric_limits<int>::max());
  EXPECT_EQ(ServerMemory().BytesOf(100, 1), 0);
}

TEST(ServerMemoryTest, ExactFindsWhatTryingAllFleetsFinds) {
  int feasible = 0;
  int changed = 0;
  for (uint64_t seed = 700'000; seed < 700'300; ++seed) {
    SampleShape shape = kShape;
    shape.is_queue = seed % 3 == 0;
    shape.has_curves = seed % 5 == 0;
    const PlanningSample sample = RandomSample(seed, shape);
    const std::vector<FleetChoice> all = BestByBruteForce(sample.problem);
    const PlanAnswer exact = Solve("exact", sample.problem);
    ASSERT_EQ(exact.best.size(), all.size()) << "seed " << seed;
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(exact.best[i].counts, all[i].counts) << "seed " << seed << ", answer " << i;
      EXPECT_EQ(exact.best[i].server_offer, all[i].server_offer) << "seed " << seed;
      EXPECT_EQ(exact.best[i].server_hosts, all[i].server_hosts) << "seed " << seed;
    }
    PlanProblem boundless = sample.problem;
    for (ServerOffer& server : boundless.servers) {
      server.memory = {};
      server.hosts_min = 1;
    }
    const PlanAnswer other = Solve("exact", boundless);
    feasible += all.empty() ? 0 : 1;
    const bool is_same = !all.empty() && !other.best.empty() &&
                         other.best.front().counts == all.front().counts &&
                         other.best.front().server_hosts == all.front().server_hosts;
    changed += !other.best.empty() && !is_same ? 1 : 0;
  }
  EXPECT_GT(feasible, 100);
  EXPECT_GT(changed, 40) << "memory decides in many of these";
}

TEST(ServerMemoryTest, EveryStrategyObeysIt) {
  for (const std::string_view name : StrategyNames()) {
    int plans = 0;
    int full = 0;
    for (uint64_t seed = 710'000; seed < 710'100; ++seed) {
      SampleShape shape = kShape;
      shape.has_two_markets = name == "on-demand";
      const PlanningSample sample = RandomSample(seed, shape);
      const Result<PlanAnswer> answer = MakeStrategy(name)->Solve(sample.problem);
      if (!answer.ok()) {
        continue;  // nothing on demand
      }
      for (const FleetChoice& choice : answer->best) {
        const ServerOffer& server =
            sample.problem.servers[static_cast<size_t>(choice.server_offer)];
        const int workers = WorkersOf(choice.counts);
        EXPECT_TRUE(DoHold(server, workers, choice.server_hosts)) << name << ", seed " << seed;
        ++plans;
        full += DoHold(server, workers + 1, choice.server_hosts) ? 0 : 1;
      }
    }
    EXPECT_GT(plans, 20) << name;
    EXPECT_GT(full, 0) << name << " is never at the limit";
  }
}

TEST(ServerMemoryTest, HeldWorkersThatNoServersHoldAreNamed) {
  PlanningSample sample = RandomSample(3, {.classes = 1, .quota_max = 4});
  Offer& offer = sample.problem.offers.front();
  offer.quota = 4;
  offer.held = 3;
  ServerOffer& server = sample.problem.servers.front();
  server.hosts_max = 1;
  server.memory.need.worker_bytes = 1e9;
  server.memory.room_bytes = 2.5e9;
  const Result<PlanAnswer> answer = MakeStrategy("exact")->Solve(sample.problem);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(
      answer.status().message(),
      "the servers on offer have memory for the gradients of 2 workers, and 3 are held or asked "
      "for: allow more servers, or types with more memory");
}

}  // namespace
}  // namespace ps::provisioner
