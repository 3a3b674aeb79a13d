#include "run/planning/live_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/random.h"

namespace ps::run {
namespace {

using provisioner::FleetWish;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

LivePolicySettings SettingsOf(const std::string& policy, uint32_t workers) {
  LivePolicySettings settings;
  settings.policy = policy;
  settings.workers_max = workers;
  settings.start_s = 10;
  settings.speed_of_one = 10;
  settings.step_samples = 5;
  return settings;
}

/// Machines start at once, as far as there are any: what the policy asks for is what is wanted.
class Fleet {
 public:
  explicit Fleet(const LivePolicySettings& settings, proto::PolicyRecord remembered = {})
      : memory(std::move(remembered)), policy_(settings, {"spot", "sure"}) {}

  PolicyFacts facts;
  proto::PolicyRecord memory;
  std::vector<proto::MarketPrice> prices;

  /// What was said, or "".
  std::string Look(double now_s) {
    proto::PolicyView view;
    view.memory = memory;
    view.available = facts.available;
    view.prices = prices;
    view.status.state = proto::RunState::kTraining;
    view.status.elapsed_s = now_s;
    view.status.samples_total = static_cast<uint64_t>(facts.samples_total);
    view.status.samples_per_s = facts.samples_per_s;
    view.status.fleet = {RowOf("spot", facts.spot), RowOf("sure", facts.on_demand)};
    const proto::FleetDecision decision = policy_.Look(view);
    memory = decision.memory.value_or(memory);
    if (!decision.changes.empty()) {
      const FleetWish fleet = FleetOf(decision);
      EXPECT_EQ(decision.changes.front().count, static_cast<int32_t>(fleet.spot));
      facts.spot.wanted = fleet.spot;
      facts.on_demand = {fleet.on_demand, fleet.on_demand, 0};
    }
    return decision.why;
  }

  /// So many machines can be had: the others are waited for.
  void HaveMachines(uint32_t machines) {
    facts.spot.present = std::min(facts.spot.wanted, machines);
    facts.spot.waiting = facts.spot.wanted - facts.spot.present;
  }

  void Scale(uint32_t wanted) {
    facts.spot.wanted = wanted;
    facts.spot.present = wanted;
    facts.spot.waiting = 0;
  }

 private:
  static proto::FleetRow RowOf(const std::string& type, const MachineCounts& counts) {
    return {type, counts.wanted, counts.present, counts.waiting, 0};
  }

  LivePolicy policy_;
};

TEST(LivePolicyTest, EachDecisionNamesItsForecastAndTheAlternatives) {
  Fleet fleet(SettingsOf("hold", 4));
  fleet.Scale(2);
  fleet.facts.available = 4;
  EXPECT_EQ(
      fleet.Look(0),
      "hold wants 4 spot instead of 2 spot, all that are needed can be had: 4 are worth their "
      "start; "
      "forecast 4 4 4 4 4 4 4 4 4 4 4 4 ...; samples of 3 spot: 23300, 4 spot: 31000");
  EXPECT_EQ(fleet.Look(30), "") << "it stays so";
  EXPECT_EQ(fleet.Look(60), "") << "another interval says nothing new";
  fleet.facts.available = 1;
  EXPECT_THAT(
      fleet.Look(70),
      AllOf(
          HasSubstr(
              "hold wants 1 spot instead of 4 spot, 1 can be had: 4 were worth their start when 4 "
              "could be had, now 1 can"),
          HasSubstr("; forecast 4 4 ")));
}

/// With short intervals machines start for longer than the twelve of them that a plan looks at.
TEST(LivePolicyTest, MachinesThatStartForManyIntervalsAreAskedFor) {
  for (const std::string name : {"hold", "parcae"}) {
    LivePolicySettings settings = SettingsOf(name, 4);
    settings.interval_s = 5;
    settings.start_s = 120;
    Fleet fleet(settings);
    fleet.facts.available = 4;
    EXPECT_THAT(fleet.Look(0), HasSubstr(name + " wants 4 spot instead of 0 spot"));
  }
}

TEST(LivePolicyTest, IntervalsAreNoLongerForLooksThatComeLate) {
  const LivePolicySettings settings = SettingsOf("hold", 4);
  Fleet fleet(settings);
  fleet.facts.available = 4;
  for (double now_s = 0; now_s <= 60 * settings.interval_s; now_s += 7) {
    fleet.Look(now_s);
  }
  EXPECT_EQ(fleet.memory.available.size(), 60U) << "and not one in 63 s";
}

TEST(LivePolicyTest, ALimitIsLearntOfWhoStartsMachinesAndTriedAgainByOne) {
  Fleet fleet(SettingsOf("reactive", 8));
  fleet.HaveMachines(0);
  EXPECT_THAT(fleet.Look(0), HasSubstr("wants 8 spot instead of 0"));
  fleet.facts.spot.present = 0;  // all are starting
  EXPECT_EQ(fleet.Look(10), "");
  fleet.HaveMachines(3);
  EXPECT_THAT(fleet.Look(20), HasSubstr("wants 4 spot instead of 8 spot, 3 can be had"));
  fleet.HaveMachines(3);
  EXPECT_EQ(fleet.Look(30), "") << "one more is wanted all the time";
  fleet.facts.spot.waiting = 0;  // it is tried
  EXPECT_EQ(fleet.Look(40), "") << "and says nothing until it is there";
  fleet.HaveMachines(3);
  EXPECT_EQ(fleet.Look(50), "");
  fleet.HaveMachines(4);
  EXPECT_THAT(
      fleet.Look(60), HasSubstr("wants 8 spot instead of 4 spot, all that are needed can be"));
  fleet.HaveMachines(8);
  EXPECT_EQ(fleet.Look(70), "");
  fleet.facts.spot.present = 7;  // one was lost, and another one is started
  EXPECT_EQ(fleet.Look(80), "");
}

TEST(LivePolicyTest, StandbyTriesNoMoreThanItsSpares) {
  Fleet fleet(SettingsOf("standby", 10));
  EXPECT_THAT(fleet.Look(0), HasSubstr("wants 11 spot"));
  fleet.HaveMachines(10);
  EXPECT_THAT(fleet.Look(10), HasSubstr("keeps 11 spot, 10 can be had"));
  fleet.HaveMachines(11);
  EXPECT_THAT(fleet.Look(20), HasSubstr("keeps 11 spot, all that are needed"));
}

TEST(LivePolicyTest, WhatAPersonAsksForIsLeftAloneForAWhile) {
  Fleet fleet(SettingsOf("reactive", 8));
  fleet.Look(0);
  fleet.HaveMachines(8);
  EXPECT_EQ(fleet.Look(10), "");
  fleet.Scale(2);
  EXPECT_EQ(
      fleet.Look(20), "reactive leaves 2 spot alone for 10m 00s, since somebody asked for that");
  EXPECT_EQ(fleet.Look(300), "");
  fleet.Scale(3);
  EXPECT_THAT(fleet.Look(400), HasSubstr("leaves 3 spot alone"));
  EXPECT_EQ(fleet.Look(999), "");
  EXPECT_THAT(fleet.Look(1000), HasSubstr("wants 8 spot instead of 3"));
  LivePolicySettings alone = SettingsOf("reactive", 8);
  alone.hand_s = 0;
  Fleet other(alone);
  other.Look(0);
  other.Scale(2);
  EXPECT_THAT(other.Look(10), HasSubstr("wants 8 spot instead of 2"));
}

TEST(LivePolicyTest, AnotherCoordinatorGoesOnFromWhatTheFirstRemembered) {
  Fleet first(SettingsOf("reactive", 8));
  first.Look(0);
  EXPECT_TRUE(first.memory.has_wanted);
  Fleet second(SettingsOf("reactive", 8), first.memory);
  second.Scale(3);
  EXPECT_THAT(second.Look(5000), HasSubstr("leaves 3 spot alone")) << "asked for meanwhile";
  Fleet third(SettingsOf("reactive", 8), second.memory);
  third.Scale(3);
  EXPECT_EQ(third.Look(5300), "");
  EXPECT_THAT(third.Look(5600), HasSubstr("wants 8 spot"));
}

TEST(LivePolicyTest, AFleetThatWasRefusedIsNotTakenForAnothersWish) {
  LivePolicy policy(SettingsOf("reactive", 8), {"spot", ""});
  proto::PolicyView view;
  view.status.state = proto::RunState::kTraining;
  view.status.fleet = {{"spot", 2, 2, 0, 0}};
  const proto::FleetDecision decision = policy.Look(view);
  ASSERT_EQ(decision.changes.size(), 1U);
  EXPECT_EQ(decision.changes[0].count, 8);
  view.memory = decision.memory.value();
  view.was_refused = true;
  view.status.elapsed_s = 2;
  EXPECT_EQ(policy.Look(view).why, "") << "2 are wanted as before";
}

TEST(LivePolicyTest, RemembersTheLastThousandIntervals) {
  Fleet fleet(SettingsOf("hold", 4));
  for (int i = 0; i < 1200; ++i) {
    fleet.facts.available = static_cast<uint32_t>(i % 7);
    fleet.Look(60.0 * i);
  }
  EXPECT_EQ(fleet.memory.available.size(), 1000U);
  EXPECT_EQ(fleet.memory.available.back(), 1199U % 7);
}

TEST(LivePolicyTest, AForecastNeedsWhatWasSeenBeforeTheRestart) {
  proto::PolicyRecord memory;
  for (uint32_t i = 0; i < 12; ++i) {
    memory.available.push_back(12 - i / 2);
  }
  Fleet fleet(SettingsOf("parcae", 12), memory);
  fleet.facts.available = 6;
  EXPECT_THAT(fleet.Look(700), HasSubstr("forecast 6 5 5 4")) << "it falls";
  Fleet fresh(SettingsOf("parcae", 12));
  fresh.facts.available = 6;
  EXPECT_THAT(fresh.Look(700), HasSubstr("forecast 6 6 6"));
}

TEST(LivePolicyTest, ADeadlineWaitsForASpeedAndSaysWhenItCannotBeMet) {
  LivePolicySettings settings = SettingsOf("deadline", 2);
  settings.speed_of_one = 0;
  settings.deadline_s = 7200;
  settings.spot_usd_per_hour = 1;
  settings.on_demand_usd_per_hour = 3;
  Fleet fleet(settings);
  fleet.facts.samples_total = 20 * 3600;
  fleet.Scale(2);
  EXPECT_EQ(fleet.Look(0), "");
  fleet.facts.samples_per_s = 20;
  EXPECT_EQ(fleet.Look(1), "") << "not yet for long enough";
  EXPECT_THAT(
      fleet.Look(6),
      AllOf(HasSubstr("deadline keeps 2 spot"), HasSubstr("USD/h of 2 spot: 2, 2 on demand: 6")));
  fleet.facts.spot.present = 0;
  fleet.facts.spot.waiting = 2;
  EXPECT_THAT(fleet.Look(4000), HasSubstr("wants 1 spot and 2 on demand instead of 2 spot"));
  settings.deadline_s = 3000;
  Fleet late(settings);
  late.facts.samples_total = 20 * 3600;
  late.Scale(2);
  late.Look(0);
  late.facts.samples_per_s = 20;
  EXPECT_THAT(late.Look(10), HasSubstr("the fleet stays: the policy deadline can't promise"));
  EXPECT_EQ(late.Look(100), "") << "it is said once";
}

/// It went by those of the job, whatever the market said.
TEST(LivePolicyTest, ThePricesOfNowTakeThePlaceOfTheJobs) {
  LivePolicySettings settings = SettingsOf("deadline", 2);
  settings.deadline_s = 7200;
  settings.spot_usd_per_hour = 1;
  settings.on_demand_usd_per_hour = 3;
  Fleet fleet(settings);
  fleet.facts.samples_total = 20 * 3600;
  fleet.facts.samples_per_s = 20;
  fleet.Scale(2);
  fleet.prices = {
      {"spot", "a", true, 0.75},
      {"spot", "b", true, 0.5},
      {"another", "a", true, 0.1},
      {"sure", "a", false, 4}};
  EXPECT_THAT(fleet.Look(0), HasSubstr("USD/h of 2 spot: 1, 2 on demand: 8"));
  Fleet named(settings);
  named.facts = fleet.facts;
  named.prices = {{"another", "a", true, 0.1}};
  EXPECT_THAT(named.Look(0), HasSubstr("USD/h of 2 spot: 0.2, 2 on demand: 6"))
      << "machines of any type";
}

TEST(LivePolicyTest, ARunIsDecidedAboutAsASimulationIs) {
  for (const std::string name : {"reactive", "hold", "parcae", "standby"}) {
    LivePolicySettings settings = SettingsOf(name, 9);
    Fleet fleet(settings);
    provisioner::SimulatedJob job;
    for (int n = 0; n <= 9; ++n) {
      job.samples_per_s.push_back(10.0 * n);
    }
    job.start_s = settings.start_s;
    const auto policy = provisioner::MakeFleetPolicy(name, job);
    ASSERT_TRUE(policy.ok());
    Random random(7);
    std::vector<uint32_t> counts;
    FleetWish wish;
    for (int minute = 0; minute < 300; ++minute) {
      const auto available = static_cast<uint32_t>(random.Below(14));
      counts.push_back(available);
      fleet.facts.available = available;
      fleet.Look(60.0 * minute);
      wish = (*policy)->Decide(
          {.now_s = 60.0 * minute,
           .is_interval = true,
           .counts = counts,
           .available = available,
           .spot = wish.spot,
           .spot_working = wish.spot,
           .on_demand = 0,
           .samples = 0});
      ASSERT_EQ(fleet.facts.spot.wanted, wish.spot) << name << " in minute " << minute;
      fleet.facts.spot.present = wish.spot;
    }
  }
}

TEST(MeasuredSpeedsTest, AreStraightLinesBetweenWhatWasMeasured) {
  MeasuredSpeeds speeds;
  speeds.Note(0, 10);
  speeds.Note(3, NAN);
  EXPECT_TRUE(speeds.empty());
  speeds.Note(2, 20);
  speeds.Note(4, 30);
  std::vector<double> rates(7, 0.0);
  speeds.Fill(&rates);
  EXPECT_THAT(rates, ElementsAre(0, 10, 20, 25, 30, 37.5, 45));
  speeds.Note(4, 5);  // a fifth of the way to it
  speeds.Note(4, 5);
  for (int i = 0; i < 50; ++i) {
    speeds.Note(4, 5);
  }
  speeds.Fill(&rates);
  EXPECT_NEAR(rates[2], 20, 1e-9);
  EXPECT_NEAR(rates[4], 20, 1e-9) << "it never falls";
}

TEST(PolicySettingsTest, AreThoseOfTheJob) {
  proto::JobConfig config;
  config.workers.resize(2);
  config.workers[0].count = 3;
  config.workers[0].type = "spot";
  config.workers[0].step_ms = 50;
  config.workers[0].minibatch = 32;
  config.workers[0].usd_per_hour = 0.5F;
  config.workers[1].count = 0;
  config.workers[1].type = "stays";
  config.workers[1].usd_per_hour = 2;
  config.provisioner.policy = proto::FleetPolicyKind::kDeadline;
  config.provisioner.on_demand_type = "stays";
  config.provisioner.within_s = 900;
  const LivePolicySettings settings = PolicySettingsOf(config);
  EXPECT_EQ(settings.policy, "deadline");
  EXPECT_EQ(settings.workers_max, 3U);
  EXPECT_EQ(settings.speed_of_one, 640);
  EXPECT_EQ(settings.step_samples, 32);
  EXPECT_EQ(settings.spot_usd_per_hour, 0.5);
  EXPECT_EQ(settings.on_demand_usd_per_hour, 2);
  EXPECT_EQ(settings.deadline_s, 900);
  config.train.local_steps = 8;
  const LivePolicySettings rounds = PolicySettingsOf(config);
  EXPECT_EQ(rounds.step_samples, 8 * 32) << "what a revocation undoes";
  EXPECT_EQ(rounds.speed_of_one, 640);
  proto::JobStatus status;
  status.fleet = {{"stays", 1, 1, 0, 0}, {"spot", 5, 3, 2, 0}};
  const PolicyFacts facts = PolicyFactsOf(status, PolicyTypesOf(config));
  EXPECT_EQ(facts.spot, (MachineCounts{5, 3, 2}));
  EXPECT_EQ(facts.on_demand, (MachineCounts{1, 1, 0}));
  config.provisioner.policy = proto::FleetPolicyKind::kHold;
  EXPECT_EQ(PolicyTypesOf(config).on_demand, "");
  // Each policy of a job is one that there is.
  for (const auto kind :
       {proto::FleetPolicyKind::kReactive,
        proto::FleetPolicyKind::kHold,
        proto::FleetPolicyKind::kParcae,
        proto::FleetPolicyKind::kStandby,
        proto::FleetPolicyKind::kDeadline}) {
    config.provisioner.policy = kind;
    const auto names = provisioner::FleetPolicyNames();
    EXPECT_EQ(std::ranges::count(names, PolicySettingsOf(config).policy), 1);
  }
}

TEST(LivePolicySettingsTest, ThePolicyReckonsWithTheMeasuredStartUnlessTheJobSaysAnother) {
  proto::JobConfig config;
  config.launch.launcher = proto::LauncherKind::kEc2;
  config.launch.rent.types = {"g4dn.xlarge", "g5.xlarge"};
  config.provisioner.policy = proto::FleetPolicyKind::kParcae;
  config.workers.resize(1);
  config.workers[0].type = "gpu";
  proto::JobProfile profile;
  const auto line_of = [&](LivePolicySettings* settings) {
    return UseMeasuredStart(config, profile, settings);
  };
  LivePolicySettings settings = PolicySettingsOf(config);
  EXPECT_EQ(line_of(&settings), "");
  EXPECT_EQ(settings.start_s, 120);
  profile.starts = {
      {.instance_type = "g4dn.xlarge", .launcher = "ec2", .step_s = 90},
      {.instance_type = "g5.xlarge", .launcher = "ec2", .step_s = 98},
      {.instance_type = "g5.xlarge", .launcher = "ssh", .step_s = 3},
      {.instance_type = "p3.2xlarge", .launcher = "ec2", .step_s = 500}};
  EXPECT_EQ(
      line_of(&settings), "start-up of gpu: 1m 34s, measured 2 times; parcae reckons with it");
  EXPECT_EQ(settings.start_s, 94);
  config.workers[0].type = "g5.xlarge";
  settings = PolicySettingsOf(config);
  EXPECT_THAT(line_of(&settings), HasSubstr("measured 1 time;"));
  EXPECT_EQ(settings.start_s, 98);
  config.provisioner.start_s = 30;
  settings = PolicySettingsOf(config);
  EXPECT_EQ(line_of(&settings), "");
  EXPECT_EQ(settings.start_s, 30);
}

}  // namespace
}  // namespace ps::run
