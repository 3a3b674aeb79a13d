// What a launcher, a cloud and people may do to a fleet, one thing at a time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/sim/cluster.h"
#include "tests/sim/expect_ok.h"

namespace ps::sim {
namespace {

constexpr std::array kModes = {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp};

/// A run whose coordinator asks for workers, and has checkpoints.
Scenario Elastic(proto::Mode mode, uint64_t seed) {
  Scenario scenario = Quiet(mode);
  scenario.seed = seed;
  scenario.train_samples = 400;
  scenario.is_replacing = true;
  scenario.checkpoint_every = std::chrono::milliseconds(200);
  scenario.server_detect = std::chrono::milliseconds(2400);
  scenario.disturbed_for = std::chrono::seconds(1);
  return scenario;
}

TEST(ElasticTest, TheFleetFillsThoughEverySecondStartFails) {
  for (const proto::Mode mode : kModes) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      Scenario scenario = Elastic(mode, seed);
      scenario.failed_start_every = 2;
      scenario.kills = 3;
      scenario.scales = seed % 3;
      scenario.restarts = seed % 2;
      const Outcome outcome = Simulate(scenario);
      EXPECT_GE(outcome.job.joins, 3U) << seed;
      ExpectOk(scenario);
    }
  }
}

TEST(ElasticTest, OfTwoProcessesOfOneLaunchOneTrains) {
  for (const proto::Mode mode : kModes) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      Scenario scenario = Elastic(mode, seed);
      scenario.doubled_starts = 4;
      scenario.kills = seed % 3;
      scenario.has_few_seats = seed % 2 == 0;
      scenario.restarts = seed % 2;
      ExpectOk(scenario);
    }
  }
}

TEST(ElasticTest, AllWorkersAndAServerDieInOneInstant) {
  for (const proto::Mode mode : kModes) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      Scenario scenario = Elastic(mode, seed);
      scenario.is_replacing = seed % 2 == 0;
      scenario.disasters = 2;
      scenario.restarts = seed % 3 == 0 ? 1 : 0;
      ExpectOk(scenario);
    }
  }
}

TEST(ElasticTest, TheFleetChangesWhileACheckpointIsWritten) {
  for (const proto::Mode mode : kModes) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      Scenario scenario = Elastic(mode, seed);
      scenario.scales_at_checkpoint = 4;
      scenario.disk_delay_max = std::chrono::milliseconds(30);
      const Outcome quiet = Simulate(scenario);
      EXPECT_EQ(quiet.job.checkpoints.steps_undone, 0U) << seed;
      EXPECT_EQ(quiet.job.steps_lost, 0U) << seed;
      ExpectOk(scenario);
      scenario.server_kills_at_checkpoint = 1;
      scenario.kills = seed % 3;
      scenario.restarts = seed % 2;
      ExpectOk(scenario);
    }
  }
}

TEST(ElasticTest, WhoeverTakesPartInAMoveMayDieInTheActOfIt) {
  for (const proto::Mode mode : kModes) {
    std::string logs;
    for (uint32_t seed = 1; seed <= 6; ++seed) {
      Scenario scenario = Elastic(mode, seed);
      scenario.chunk_moves = 2;
      scenario.server_scales = 2;
      scenario.kills_at_move = 2;
      scenario.chunk_kib = 2;  // in parts
      logs += Simulate(scenario).log;
      ExpectOk(scenario);
    }
    for (const char* const role : {"giver", "taker", "coordinator"}) {
      EXPECT_GE(CountIn(logs, std::string("event=killed_at_move role=") + role), 1U)
          << role << " in " << proto::ModeName(mode);
    }
  }
}

TEST(ElasticTest, ANoticeOfADeadWorkerTakesNobodyElse) {
  for (const proto::Mode mode : kModes) {
    size_t late = 0;
    size_t refused = 0;
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      Scenario scenario = Elastic(mode, seed);
      scenario.is_replacing = seed % 2 == 0;
      scenario.late_notices = 3;
      scenario.restarts = seed % 2;
      const std::string log = Simulate(scenario).log;
      late += CountIn(log, "event=dead_one_noticed");
      refused += CountIn(log, "takes part no more");
      ExpectOk(scenario);
    }
    EXPECT_GE(late, 10U);
    EXPECT_GE(refused, 1U) << "the coordinator knew of the death";
    EXPECT_GT(late, refused) << "and did not";
  }
}

TEST(ElasticTest, AServerWithNoticeHandsOverAndNothingIsDoneAgain) {
  for (const proto::Mode mode : kModes) {
    uint64_t handovers = 0;
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      Scenario scenario = Elastic(mode, seed);
      scenario.server_notices = 1 + seed % 2;
      scenario.restarts = seed % 2;
      const Outcome outcome = Simulate(scenario);
      EXPECT_EQ(outcome.job.checkpoints.steps_undone, 0U) << seed;
      EXPECT_EQ(outcome.job.steps_lost, 0U) << seed;
      handovers += outcome.job.checkpoints.shards_restored;
      ExpectOk(scenario);
      scenario.kills = 2;
      scenario.scales = seed % 3;
      scenario.network.loss = 0.01;
      scenario.network.break_connection = 0.005;
      ExpectOk(scenario);
    }
    EXPECT_TRUE(handovers > 0 || mode == proto::Mode::kBsp);
  }
}

/// At the end of its notice, before it, after its death, or not at all.
TEST(ElasticTest, AServerWhoseMachineIsTakenBackIsReplacedWhenItGoes) {
  for (const proto::Mode mode : kModes) {
    uint64_t returns = 0;
    for (uint32_t seed = 1; seed <= 10; ++seed) {
      Scenario scenario = Elastic(mode, seed);
      scenario.server_revocations = 2;
      scenario.restarts = seed % 3 == 0 ? 1 : 0;
      scenario.kills = seed % 2;
      const Outcome outcome = Simulate(scenario);
      returns += outcome.job.checkpoints.shards_restored + outcome.job.checkpoints.rollbacks;
      ExpectOk(scenario);
    }
    EXPECT_GE(returns, 5U);
  }
}

TEST(ElasticTest, SeveralWorkersGetTheirNoticesInOneInstant) {
  for (const proto::Mode mode : kModes) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      Scenario scenario = Elastic(mode, seed);
      scenario.is_replacing = seed % 2 == 0;
      scenario.workers = 5;
      scenario.several_notices = 2;
      scenario.restarts = seed % 3 == 0 ? 1 : 0;
      const Outcome outcome = Simulate(scenario);
      EXPECT_GE(outcome.job.revocations_noticed + outcome.job.revocations_unnoticed, 2U) << seed;
      ExpectOk(scenario);
    }
  }
}

/// Three workers in two zones. The first `zones_out` have no machines for two hours.
Scenario ZonesOut(proto::Mode mode, uint64_t seed, uint32_t zones_out) {
  Scenario scenario = Elastic(mode, seed);
  scenario.zones = 2;
  scenario.zones_out = zones_out;
  scenario.zones_out_for = std::chrono::hours(2);
  scenario.time_limit = std::chrono::hours(4);
  scenario.restarts = seed % 2;
  return scenario;
}

TEST(ElasticTest, AZoneThatIsGoneForHoursHoldsNobodyUp) {
  for (const proto::Mode mode : kModes) {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      const Scenario scenario = ZonesOut(mode, seed, 1);
      EXPECT_LT(Simulate(scenario).virtual_time, std::chrono::minutes(2)) << seed;
      ExpectOk(scenario);
    }
  }
}

/// It is parked meanwhile, and looks for machines every ten minutes.
TEST(ElasticTest, CapacityThatIsGoneForHoursParksTheJobWhichWakesByItself) {
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kBsp}) {
    Scenario scenario = ZonesOut(mode, 3, 2);
    const bool parks_servers = mode == proto::Mode::kAsync;  // else they stay
    scenario.park_after = std::chrono::minutes(parks_servers ? 1 : 0);
    const Outcome outcome = Simulate(scenario);
    for (const std::string event : {"event=servers_parked", "event=servers_woken"}) {
      EXPECT_EQ(outcome.log.find(event) != std::string::npos, parks_servers) << event;
    }
    EXPECT_TRUE(outcome.ok()) << outcome.status << testing::PrintToString(outcome.violations);
    EXPECT_GE(outcome.virtual_time, scenario.zones_out_for);
    EXPECT_LE(outcome.virtual_time, scenario.zones_out_for + std::chrono::minutes(14));
    EXPECT_GE(outcome.job.checkpoints.newest, 1U);
    EXPECT_GE(outcome.job.joins, 6U) << "three, and three that took their places";
  }
}

/// Servers end with the last worker, and a person or a coordinator that dies wakes them: nothing is
/// done again.
TEST(ElasticTest, ServersOfAJobWithoutWorkersEndAndComeBackWithThem) {
  for (const proto::Mode mode : kModes) {
    uint64_t parks = 0;
    for (uint32_t seed = 1; seed <= 6; ++seed) {
      Scenario scenario = Elastic(mode, seed);
      scenario.is_consistent = mode != proto::Mode::kBsp && seed % 2 == 0;
      scenario.scales_to_none = 2;
      scenario.restarts = seed % 3;
      scenario.park_after = std::chrono::milliseconds(100);
      const Outcome outcome = Simulate(scenario);
      parks += outcome.log.find("event=servers_parked") != std::string::npos ? 1 : 0;
      EXPECT_EQ(outcome.job.checkpoints.steps_undone, 0U) << seed;
      ExpectOk(scenario);
    }
    EXPECT_GE(parks, 2U);
  }
}

/// The coordinator is replaced, workers and servers die, whether or not somebody sits out.
TEST(ElasticTest, WorkersThatStraggleSitOutOfTheRounds) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    Scenario scenario = Elastic(proto::Mode::kBsp, seed);
    scenario.workers = 4;
    scenario.train_samples = 1200;
    scenario.sits_out = true;
    scenario.straggles = 2;
    scenario.disturbed_for = std::chrono::seconds(8);
    const Outcome quiet = Simulate(scenario);
    EXPECT_THAT(quiet.log, testing::HasSubstr("event=worker_sits_out")) << seed;
    EXPECT_EQ(quiet.job.joins, 4U) << "nobody is replaced for it";
    EXPECT_EQ(quiet.job.steps_lost, 0U) << seed;
    ExpectOk(scenario);
    scenario.restarts = 2;
    scenario.kills = seed % 3;
    scenario.server_kills = seed % 2;
    scenario.scales = 1;
    ExpectOk(scenario);
  }
}

}  // namespace
}  // namespace ps::sim
