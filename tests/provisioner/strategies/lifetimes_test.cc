#include "provisioner/strategies/lifetimes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "provisioner/strategies/expected_run.h"
#include "ps/base/random.h"
#include "tests/provisioner/model/csv_data.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const LifetimeLaw& LawOf(const char* device, const char* region = "") {
  return *PublishedLifetimes(device, region);
}

/// All 60 of its regions, and the hours of its types that were counted apart: machines that are
/// gone by an hour in all regions are those of the type.
TEST(LifetimeTest, PublishedSharesAreThoseOfCmDare) {
  const auto rows = LoadCsv("tests/data/cmdare/revocations.csv");
  ASSERT_EQ(rows.size(), 12U);
  for (const int hours : {1, 2, 6, 12, 24}) {
    std::map<std::string, double> machines;
    std::map<std::string, double> revoked;  // by type
    for (const auto& row : rows) {
      const std::string& device = row.at("gpu");
      const double share = std::stod(row.at(std::to_string(hours)));
      const LifetimeLaw* const law = PublishedLifetimes(device, row.at("region"));
      ASSERT_NE(law, nullptr) << device << "@" << row.at("region");
      EXPECT_NEAR(law->RevokedWithin(0, hours), share, 1e-12)
          << device << "@" << row.at("region") << " " << hours;
      machines[device] += std::stod(row.at("machines"));
      revoked[device] += std::round(share * std::stod(row.at("machines")));
    }
    for (const auto& [device, count] : machines) {
      EXPECT_NEAR(LawOf(device.c_str()).RevokedWithin(0, hours), revoked[device] / count, 1e-12)
          << device << " " << hours;
    }
  }
  EXPECT_EQ(PublishedLifetimeNames().size(), rows.size() + 3);
  EXPECT_NEAR(1 - LawOf("K80").SurvivalAt(24), 72 / 156.0, 1e-12);
  EXPECT_NEAR(1 - LawOf("P100").SurvivalAt(24), 65 / 120.0, 1e-12);
  EXPECT_NEAR(1 - LawOf("V100").SurvivalAt(24), 69 / 120.0, 1e-12);
  EXPECT_EQ(PublishedLifetimes("T4", ""), nullptr);
  EXPECT_EQ(PublishedLifetimes("K80", "mars"), nullptr);
}

/// 46, 29 and 55 % of the revocations of a day in the first hour, 61, 72 and 90 % in six.
TEST(LifetimeTest, RevocationsCrowdInTheFirstHours) {
  const struct {
    const char* device;
    double first_hour;
    double six_hours;
  } rows[] = {{"K80", .46, .61}, {"P100", .29, .72}, {"V100", .55, .90}};

  for (const auto& row : rows) {
    const LifetimeLaw& law = LawOf(row.device);
    const double day = law.RevokedWithin(0, 24);
    EXPECT_NEAR(law.RevokedWithin(0, 1) / day, row.first_hour, 0.006) << row.device;
    EXPECT_NEAR(law.RevokedWithin(0, 6) / day, row.six_hours, 0.006) << row.device;
    EXPECT_LT(law.RevokedWithin(6, 1), law.RevokedWithin(0, 1) / 2.5)
        << "a machine that survives the first hours is worth keeping";
  }
}

TEST(LifetimeTest, MachinesThatWereLetGoCountAsLongAsTheyWereSeen) {
  const auto law = LifetimeLaw::FromObserved({{1, true}, {2, false}, {4, true}, {9, false}});
  ASSERT_TRUE(law.ok()) << law.status();
  EXPECT_THAT(
      law->points(),
      ElementsAre(
          LifetimePoint{0, 0},
          LifetimePoint{1, 0.25},
          LifetimePoint{4, 0.625},
          LifetimePoint{9, 0.625}));
  EXPECT_LT(law->SurvivalAt(20), law->SurvivalAt(9)) << "nobody lives forever";
  EXPECT_NEAR(law->MeanUpHours(0, 1), 0.875, 1e-6);
}

TEST(LifetimeTest, WhatMakesNoSenseIsNamed) {
  const auto error = [](std::vector<LifetimePoint> points) {
    const auto law = LifetimeLaw::FromPoints(std::move(points));
    return law.ok() ? "" : std::string(law.status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("0 points"));
  EXPECT_THAT(error({{1, 0.5}, {1, 0.6}}), HasSubstr("point 1: 1 hours; hours ascend"));
  EXPECT_THAT(error({{1, 0.5}, {2, 0.4}}), HasSubstr("point 1: a share of 0.4"));
  EXPECT_THAT(error({{1, 1.5}}), HasSubstr("point 0: a share of 1.5"));
  EXPECT_THAT(error({{NAN, 0.5}}), HasSubstr("hours ascend"));
  EXPECT_FALSE(LifetimeLaw::FromObserved({}).ok());
  EXPECT_FALSE(LifetimeLaw::FromObserved({{3, false}}).ok());
  EXPECT_FALSE(LifetimeLaw::FromObserved({{0, true}}).ok());
}

/// Hours until revocation, drawn from the law.
double DrawLife(const LifetimeLaw& law, Random* random) {
  const double survival = 1 - random->Unit();
  double low = 0;
  double high = 10'000;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (law.SurvivalAt(middle) > survival ? low : high) = middle;
  }
  return low;
}

/// Seconds until `steps` are done, worker by worker, event by event.
double SimulateRun(
    double steps, const RevocableWorkers& group, const RevocationTimes& times, Random* random) {
  struct Change {
    double at_s;
    bool is_up;

    bool operator<(const Change& other) const { return at_s > other.at_s; }
  };

  std::priority_queue<Change> changes;
  const auto live = [&](double from_s) {
    changes.push({from_s + DrawLife(*group.lifetimes, random) * 3600, false});
  };
  for (int i = 0; i < group.count; ++i) {
    live(0);
  }
  int up = group.count;
  double now_s = 0;
  for (;;) {
    const Change change = changes.top();
    const double rate = up * group.steps_per_s;
    if (rate * (change.at_s - now_s) >= steps) {
      return now_s + steps / rate;
    }
    steps -= rate * (change.at_s - now_s);
    now_s = change.at_s;
    changes.pop();
    if (change.is_up) {
      ++up;
      live(now_s);
    } else {
      --up;
      steps += times.lost_s * group.steps_per_s;
      changes.push({now_s + times.start_up_s + times.join_s, true});
    }
  }
}

TEST(ExpectedRunTest, IsTheMeanOfSimulatedRuns) {
  const RevocationTimes times = {.start_up_s = 90, .join_s = 600, .lost_s = 20};
  for (const double hours : {2.0, 10.0, 40.0}) {
    const RevocableWorkers group = {6, 2, 0.9, &LawOf("V100"), 0};
    const double steps = hours * 3600 * group.count * group.steps_per_s;
    const auto expected = ExpectRun(steps, {group}, times, 0.2);
    ASSERT_TRUE(expected.ok()) << expected.status();
    Random random(7);
    double mean = 0;
    constexpr int kRuns = 400;
    for (int run = 0; run < kRuns; ++run) {
      mean += SimulateRun(steps, group, times, &random) / kRuns;
    }
    EXPECT_NEAR(expected->seconds / mean, 1, 0.01) << hours;
    EXPECT_GT(expected->revocations, 1);
    EXPECT_NEAR(expected->seconds_without, hours * 3600, 1e-6);
    EXPECT_GT(expected->usd, expected->usd_without);
  }
}

TEST(ExpectedRunTest, MachinesThatStayAndOldOnesAreSafer) {
  const RevocationTimes times = {.start_up_s = 90, .join_s = 30, .lost_s = 1};
  const RevocableWorkers fresh = {8, 1, 1, &LawOf("V100"), 0};
  RevocableWorkers old = fresh;
  old.age_hours = 6;
  RevocableWorkers on_demand = fresh;
  on_demand.lifetimes = nullptr;
  const double steps = 4 * 3600 * 8;
  const double fresh_s = ExpectRun(steps, {fresh}, times, 0)->seconds;
  const double old_s = ExpectRun(steps, {old}, times, 0)->seconds;
  const auto stays = ExpectRun(steps, {on_demand}, times, 0);
  EXPECT_NEAR(stays->seconds, 4 * 3600, 1e-3);
  EXPECT_NEAR(stays->usd, 32, 1e-6);
  EXPECT_EQ(stays->revocations, 0);
  EXPECT_LT(old_s, fresh_s);
  EXPECT_GT(old_s, stays->seconds);
  RevocationTimes no_replacement = times;
  no_replacement.is_replaced = false;
  EXPECT_GT(ExpectRun(steps, {fresh}, no_replacement, 0)->seconds, 1.3 * fresh_s);
  // Twice the prices of machines: twice the cost of the same run.
  RevocableWorkers dearer = fresh;
  dearer.usd_per_hour = 2;
  EXPECT_NEAR(
      ExpectRun(steps, {dearer}, times, 0)->usd,
      2 * ExpectRun(steps, {fresh}, times, 0)->usd,
      1e-9);
}

/// From a loss until it is known no machine is there; a successor is paid for from its start on.
TEST(ExpectedRunTest, ASuccessorIsPaidForWhileItStartsAndJoins) {
  const RevocableWorkers group = {8, 1, 1, &LawOf("V100"), 0};
  const double steps = 4 * 3600 * 8;
  const auto run_of = [&](const RevocableWorkers& workers, const RevocationTimes& times) {
    const auto run = ExpectRun(steps, {workers}, times, 0);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *run : RunExpectation();
  };
  const RunExpectation told = run_of(group, {.start_up_s = 90, .join_s = 10, .lost_s = 1});
  const RunExpectation silent =
      run_of(group, {.detect_s = 30, .start_up_s = 90, .join_s = 10, .lost_s = 1});
  const RunExpectation slow = run_of(group, {.start_up_s = 120, .join_s = 10, .lost_s = 1});
  const RunExpectation joins = run_of(group, {.start_up_s = 90, .join_s = 40, .lost_s = 1});
  EXPECT_GT(silent.seconds, told.seconds);
  EXPECT_DOUBLE_EQ(silent.seconds, slow.seconds);
  EXPECT_DOUBLE_EQ(joins.seconds, slow.seconds);
  EXPECT_NEAR(slow.usd - silent.usd, slow.revocations * 30 / 3600, 1e-9);
  EXPECT_DOUBLE_EQ(joins.usd, slow.usd);
  RevocableWorkers of_type = group;
  of_type.start_up_s = 120;
  EXPECT_DOUBLE_EQ(run_of(of_type, {.start_up_s = 90, .join_s = 10, .lost_s = 1}).usd, slow.usd);
  const RevocationTimes alone = {.start_up_s = 90, .lost_s = 1, .is_replaced = false};
  const RevocationTimes alone_slow = {.start_up_s = 900, .lost_s = 1, .is_replaced = false};
  EXPECT_DOUBLE_EQ(run_of(group, alone).usd, run_of(group, alone_slow).usd) << "nobody comes";
}

TEST(ExpectedRunTest, WhatNeverEndsIsRefused) {
  const auto law = LifetimeLaw::FromPoints({{0.1, 1}});
  const RevocationTimes times = {.is_replaced = false};
  const auto run = ExpectRun(36000, {{1, 1, 1, &*law, 0}}, times, 0);
  EXPECT_EQ(run.status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ExpectRun(0, {{1, 1, 1, nullptr, 0}}, times, 0).ok());
  EXPECT_FALSE(ExpectRun(1, {}, times, 0).ok());
  EXPECT_FALSE(ExpectRun(1, {{1, 1, 1, nullptr, 0}}, {.detect_s = -1}, 0).ok());
  EXPECT_FALSE(ExpectRun(1, {{-1, 1, 1, nullptr, 0}}, times, 0).ok());
}

}  // namespace
}  // namespace ps::provisioner
