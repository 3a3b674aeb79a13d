#include "run/planning/live_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
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
  explicit Fleet(const LivePolicySettings& settings, PolicyMemory memory = {})
      : policy_(settings, std::move(memory)) {}

  PolicyFacts facts;

  /// What was said, or "".
  std::string Look(double now_s) {
    facts.now_s = now_s;
    const PolicyLook look = policy_.Look(facts);
    if (!look.decision) {
      return "";
    }
    if (look.decision->has_change) {
      facts.spot.wanted = look.decision->fleet.spot;
      facts.on_demand = {look.decision->fleet.on_demand, look.decision->fleet.on_demand, 0};
      policy_.NoteAsked(look.decision->fleet);
    }
    return look.decision->why;
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
      "forecast 4 4 4 4 4 4 4 4 4 4 4 4; samples of 3 spot: 21500, 4 spot: 28600");
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

TEST(LivePolicyTest, IntervalsAreNoLongerForLooksThatComeLate) {
  LivePolicySettings settings = SettingsOf("hold", 4);
  LivePolicy policy(settings, PolicyMemory());
  PolicyFacts facts;
  facts.available = 4;
  int intervals = 0;
  for (facts.now_s = 0; facts.now_s <= 60 * settings.interval_s; facts.now_s += 7) {
    intervals += policy.Look(facts).is_interval ? 1 : 0;
  }
  EXPECT_EQ(intervals, 60) << "and not one in 63 s";
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

TEST(LivePolicyTest, AnotherCoordinatorGoesOnFromTheLogOfTheFirst) {
  const std::string head = "t=1 time=2026-11-22T21:03:17.000Z node=coordinator level=info event=";
  std::string log = "not a line\n";
  for (int i = 0; i < 1200; ++i) {
    log += head + "policy_interval available=" + std::to_string(i % 7) + "\n";
  }
  log += head + "policy spot=5 on_demand=0 hand_until_s=0 why=\"hold wants 5 spot\"\n";
  log += head + "policy_interval available=many\n" + head + "policy spot=1\n";
  log += head + "policy_refused why=\"no\"\n";
  const PolicyMemory memory = RecallPolicy(log);
  EXPECT_EQ(memory.counts.size(), 1000U);
  EXPECT_EQ(memory.counts.back(), 1199U % 7);
  EXPECT_EQ(memory.asked, FleetWish{.spot = 5});
  Fleet fleet(SettingsOf("reactive", 8), memory);
  fleet.Scale(3);
  EXPECT_THAT(fleet.Look(5000), HasSubstr("leaves 3 spot alone")) << "asked for meanwhile";
  const std::string by_hand =
      log + head + "policy spot=3 on_demand=0 hand_until_s=5600 why=\"leaves 3 spot alone\"\n";
  Fleet again(SettingsOf("reactive", 8), RecallPolicy(by_hand));
  again.Scale(3);
  EXPECT_EQ(again.Look(5300), "");
  EXPECT_THAT(again.Look(5600), HasSubstr("wants 8 spot"));
  EXPECT_FALSE(RecallPolicy("").asked.has_value());
}

TEST(LivePolicyTest, AForecastNeedsWhatWasSeenBeforeTheRestart) {
  PolicyMemory memory;
  for (uint32_t i = 0; i < 12; ++i) {
    memory.counts.push_back(12 - i / 2);
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
  settings.samples_wanted = 20 * 3600;
  settings.deadline_s = 7200;
  settings.spot_usd_per_hour = 1;
  settings.on_demand_usd_per_hour = 3;
  Fleet fleet(settings);
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
  late.Scale(2);
  late.Look(0);
  late.facts.samples_per_s = 20;
  EXPECT_THAT(late.Look(10), HasSubstr("the fleet stays: the policy deadline can't promise"));
  EXPECT_EQ(late.Look(100), "") << "it is said once";
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
    const auto policy = provisioner::MakeFleetPolicy(name, job, {});
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
  const LivePolicySettings settings = PolicySettingsOf(config, 1000);
  EXPECT_EQ(settings.policy, "deadline");
  EXPECT_EQ(settings.workers_max, 3U);
  EXPECT_EQ(settings.speed_of_one, 640);
  EXPECT_EQ(settings.spot_usd_per_hour, 0.5);
  EXPECT_EQ(settings.on_demand_usd_per_hour, 2);
  EXPECT_EQ(settings.samples_wanted, 1000);
  EXPECT_EQ(settings.deadline_s, 900);
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
        proto::FleetPolicyKind::kDeadline,
        proto::FleetPolicyKind::kOracle}) {
    config.provisioner.policy = kind;
    const auto names = provisioner::FleetPolicyNames();
    EXPECT_EQ(std::ranges::count(names, PolicySettingsOf(config, 1).policy), 1);
  }
}

}  // namespace
}  // namespace ps::run
