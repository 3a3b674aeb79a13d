// Where workers are started: zones by turns, places that are left out, and a limit on starts.

#include "ps/coordinator/state/places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using Cause = Places::Cause;

class PlacesTest : public ::testing::Test {
 protected:
  PlacesTest() {
    config_.launch.zones = {{"a", ""}, {"b", ""}};
    config_.fleet.join_timeout_s = 60;
    group_.type = "spot";
  }

  bool IsReady() const { return !places_.WaitOf(group_, now_).has_value(); }

  std::string Take(uint32_t seat = 0) {
    std::string zone = places_.Take(WorkerId(seat), group_, now_);
    taken_.emplace(group_.type, zone);
    return zone;
  }

  void EndPass() { places_.EndPass(std::exchange(taken_, {}), now_, &random_); }

  void Fail(uint32_t seat, Cause cause) { places_.NoteFailure(WorkerId(seat), cause, "why", now_); }

  /// One worker after another, as soon as one may be started, until none may be for half a minute.
  /// Returns for how long.
  Duration FailUntilLeftOut(Cause cause) {
    for (int i = 0; i < 100; ++i) {
      const auto wait = places_.WaitOf(group_, now_);
      if (wait && wait->wait > seconds(30)) {
        return wait->wait;
      }
      now_ += wait ? wait->wait : Duration();
      Take();
      EndPass();
      Fail(0, cause);
    }
    return {};
  }

  proto::JobConfig config_;
  std::vector<proto::PlaceRecord> records_;
  proto::EventsState told_;
  TouchedRows touched_;
  Events events_{&told_, &NullLogger(), &touched_};
  Places places_{config_, &records_, &events_};
  proto::WorkerGroup group_;
  std::set<PlaceKey> taken_;
  TimePoint now_{seconds(100)};
  Random random_{1};
};

TEST_F(PlacesTest, ZonesTakeTurns) {
  std::vector<std::string> taken;
  for (uint32_t seat = 0; seat < 4; ++seat) {
    taken.push_back(Take(seat));
  }
  EXPECT_THAT(taken, ElementsAre("a", "b", "a", "b"));
}

TEST_F(PlacesTest, AGroupIsStartedInItsZonesAlone) {
  group_.zones = {"b"};
  EXPECT_EQ(Take(0) + Take(1), "bb");
}

TEST_F(PlacesTest, HostsSayWhichZonesThereAre) {
  config_.launch.zones.clear();
  config_.launch.hosts = {{"h1", 1, "x"}, {"h2", 1, "y"}, {"h3", 1, "x"}};
  EXPECT_EQ(Take(0) + Take(1) + Take(2), "xyx");
  config_.launch.hosts.clear();
  EXPECT_EQ(Take(3), "") << "one without a name";
}

TEST_F(PlacesTest, EachPlaceIsUsedLessAndLessOften) {
  group_.zones = {"a"};
  std::vector<Duration> waits;
  for (int i = 0; i < 8; ++i) {
    Take();
    EndPass();
    waits.push_back(places_.WaitOf(group_, now_)->wait);
    now_ += waits.back();
  }
  EXPECT_LT(waits.front(), milliseconds(1251));
  EXPECT_GT(waits.back(), seconds(44));
  group_.zones = {"b"};
  EXPECT_TRUE(IsReady()) << "the other one is another";
  group_.zones = {"a"};
  group_.type = "large";
  EXPECT_TRUE(IsReady()) << "and so is another type";
}

TEST_F(PlacesTest, APlaceWithoutMachinesIsLeftOutForTenMinutesAtMost) {
  group_.zones = {"a"};
  std::vector<int64_t> minutes_left_out;
  for (int i = 0; i < 6; ++i) {
    const Duration wait = FailUntilLeftOut(Cause::kPlace);
    minutes_left_out.push_back(std::chrono::duration_cast<minutes>(wait).count());
    now_ += wait;
  }
  EXPECT_THAT(minutes_left_out, ElementsAre(1, 2, 4, 8, 10, 10));
  EXPECT_FALSE(places_.HaveFailedEverywhere(group_, now_));
}

TEST_F(PlacesTest, OneWhoseProgramFailsIsLeftOutForHoursInTheEnd) {
  group_.zones = {"a"};
  std::vector<int64_t> minutes_left_out;
  for (int i = 0; i < 7; ++i) {
    const Duration wait = FailUntilLeftOut(Cause::kProgram);
    minutes_left_out.push_back(std::chrono::duration_cast<minutes>(wait).count());
    EXPECT_TRUE(places_.HaveFailedEverywhere(group_, now_));
    now_ += wait;
  }
  EXPECT_THAT(minutes_left_out, ElementsAre(10, 20, 40, 80, 160, 240, 240));
  FailUntilLeftOut(Cause::kProgram);
  EXPECT_TRUE(places_.HaveFailedEverywhere(group_, now_));
  group_.zones = {"a", "b"};
  EXPECT_FALSE(places_.HaveFailedEverywhere(group_, now_)) << "zone b was never tried";
}

/// A launcher that fails now and then may fail for all of them at once.
TEST_F(PlacesTest, AFaultOfAPlaceCountsOnceHoweverManyItEnds) {
  group_.zones = {"a"};
  for (const Cause cause : {Cause::kPlace, Cause::kProgram}) {
    for (uint32_t seat = 0; seat < 8; ++seat) {
      Take(seat);
    }
    EndPass();
    for (uint32_t seat = 0; seat < 8; ++seat) {
      Fail(seat, cause);
    }
    EXPECT_LT(places_.WaitOf(group_, now_)->wait, seconds(3));
  }
}

TEST_F(PlacesTest, OneWorkerIsStartedToSeeWhetherAPlaceIsGoodAgain) {
  group_.zones = {"a"};
  now_ += FailUntilLeftOut(Cause::kPlace);
  EXPECT_TRUE(IsReady());
  Take(0);
  EXPECT_FALSE(IsReady());
  places_.NoteStep(WorkerId(0));
  EXPECT_TRUE(IsReady()) << "it trains";
  EXPECT_EQ(FailUntilLeftOut(Cause::kPlace), minutes(1)) << "and counting begins anew";
}

TEST_F(PlacesTest, AFullPlaceIsTriedWhenAMachineOfItIsFree) {
  group_.zones = {"a"};
  Take(7);
  places_.NoteStep(WorkerId(7));
  FailUntilLeftOut(Cause::kPlace);
  EXPECT_FALSE(IsReady());
  places_.NoteFree(WorkerId(7), now_);
  now_ += seconds(30);
  EXPECT_TRUE(IsReady()) << "half a minute early";
  places_.Forget();
  FailUntilLeftOut(Cause::kProgram);
  places_.NoteFree(WorkerId(0), now_);
  EXPECT_FALSE(IsReady()) << "no machine mends a program";
}

TEST_F(PlacesTest, WhoAsksGetsAnswersAtOnceFromAllPlaces) {
  FailUntilLeftOut(Cause::kProgram);
  EXPECT_FALSE(IsReady());
  EXPECT_THAT(
      places_.WaitOf(group_, now_)->why,
      AllOf(HasSubstr("zone a: 3 starts came to nothing: why"), HasSubstr("; zone b: ")));
  places_.Forget();
  EXPECT_TRUE(IsReady());
}

TEST_F(PlacesTest, TheNextCoordinatorKnowsWhatIsLeftOutAndWhy) {
  const TimePoint began_at = now_ - minutes(10);
  places_.SetBegin(began_at);
  FailUntilLeftOut(Cause::kProgram);
  ASSERT_TRUE(places_.HaveFailedEverywhere(group_, now_));
  ASSERT_EQ(records_.size(), 2U);
  Places next(config_, &records_, &events_);
  next.SetBegin(began_at);
  const auto wait = next.WaitOf(group_, now_);
  ASSERT_TRUE(wait.has_value());
  EXPECT_TRUE(wait->is_left_out);
  EXPECT_EQ(wait->wait, places_.WaitOf(group_, now_)->wait);
  EXPECT_THAT(wait->why, HasSubstr("3 starts came to nothing: why"));
  EXPECT_TRUE(next.HaveFailedEverywhere(group_, now_));
  now_ += wait->wait;
  next.Take(WorkerId(7), group_, now_);
  next.NoteStep(WorkerId(7));
  EXPECT_EQ(records_.size(), 1U) << "a place that does well is nothing to remember";
  next.Forget();
  EXPECT_THAT(records_, IsEmpty());
}

TEST(StartLimitTest, ASecondsStartsAreAllowedAtOnceThenAsManyEachSecond) {
  StartLimit limit(4);
  TimePoint now(seconds(50));
  const auto started = [&] {
    const uint32_t starts = limit.Allowed(now);
    limit.Take(starts, now);
    return starts;
  };
  EXPECT_EQ(started(), 4U);
  EXPECT_EQ(started(), 0U);
  now += milliseconds(500);
  EXPECT_EQ(started(), 2U);
  now += hours(1);
  EXPECT_EQ(started(), 4U);
  StartLimit slow(0.25);
  EXPECT_EQ(slow.Allowed(now), 1U);
  slow.Take(1, now);
  EXPECT_EQ(slow.Allowed(now + seconds(3)), 0U);
  slow.Take(0, now + seconds(3));
  EXPECT_EQ(slow.Allowed(now + seconds(4)), 1U);
  StartLimit none(0);
  none.Take(1000, now);
  EXPECT_EQ(none.Allowed(now), UINT32_MAX);
}

/// Two workers of one type, in zones a and b.
class ZonesTest : public ::testing::Test {
 protected:
  ZonesTest() {
    harness_.StartWithShards();
    for (const auto& [seat, group] : harness_.fleet.workers) {
      first_.push_back(group.zones.at(0));
      workers_.push_back(harness_.Join(seat.value));
    }
    harness_.AskAll(&workers_);
    harness_.fleet.workers.clear();
  }

  static CoordinatorOptions TwoZones() {
    CoordinatorOptions options = SmallJob();
    options.train_samples = 20'000;
    options.config.fleet.replace = true;
    options.config.fleet.starts_per_s = 4;
    options.config.workers = {proto::WorkerGroup{.count = 2, .type = "spot"}};
    options.config.launch.launcher = proto::LauncherKind::kSlurm;
    options.config.launch.zones = {{"a", ""}, {"b", ""}};
    return options;
  }

  void LoseAll() {
    for (const FakeWorker& worker : workers_) {
      harness_.Exit(ProcessKind::kWorker, worker.seat.value, 0, "killed by signal 9 (Killed)");
    }
    CloseAll(&harness_, workers_);
    workers_.clear();
  }

  /// Who was started since the last call: "0 in a".
  std::vector<std::string> Started() {
    std::vector<std::string> starts;
    for (const auto& [seat, group] : harness_.fleet.workers) {
      starts.push_back(std::to_string(seat.value) + " in " + group.zones.at(0));
    }
    harness_.fleet.workers.clear();
    return starts;
  }

  /// Machines are to be had in `zone` alone; nothing: nowhere. Returns who was started.
  std::vector<std::string> Answer(const std::string& zone) {
    const auto starts = harness_.fleet.workers;
    for (const auto& [seat, group] : starts) {
      if (group.zones.at(0) != zone) {
        harness_.core->OnProcessExited(
            {ProcessKind::kWorker,
             seat.value,
             harness_.fleet.NewestOf(ProcessKind::kWorker, seat.value),
             "was not started",
             false,
             "no machine",
             true},
            harness_.now,
            harness_.out());
        continue;
      }
      workers_.push_back(harness_.Join(seat.value));
      const auto grant = harness_.Ask(&workers_.back());
      harness_.Work(&workers_.back(), grant.value());
    }
    return Started();
  }

  std::vector<std::string> AnswerFor(Duration duration, Duration step, const std::string& zone) {
    std::vector<std::string> all;
    for (Duration waited{}; waited < duration; waited += step) {
      harness_.Wait(step, workers_);
      std::ranges::copy(Answer(zone), std::back_inserter(all));
    }
    return all;
  }

  Harness harness_{TwoZones()};
  std::vector<FakeWorker> workers_;
  std::vector<std::string> first_;  // zones of the first workers
  const proto::PeerId control_ = harness_.Connect(proto::Role::kControl);
};

TEST_F(ZonesTest, WhereNoMachineIsTheOtherZoneHasAllWorkers) {
  EXPECT_THAT(first_, ElementsAre("a", "b"));
  LoseAll();
  AnswerFor(seconds(30), milliseconds(100), "b");
  EXPECT_EQ(harness_.status().fleet.at(0).present, 2U);
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
  LoseAll();
  const std::vector<std::string> again = AnswerFor(seconds(10), milliseconds(100), "b");
  EXPECT_THAT(again, testing::Contains(EndsWith("in b")));
  EXPECT_EQ(harness_.status().fleet.at(0).present, 2U);
}

/// For two hours in ElasticTest.
TEST_F(ZonesTest, AJobWithoutCapacityIsParkedAndWakesByItself) {
  LoseAll();
  const size_t starts = AnswerFor(minutes(25), seconds(5), "").size();
  EXPECT_GE(starts, 10U) << "each zone at 0, 1 and 3 s, then after 1, 2, 4 and 8 min";
  EXPECT_LE(starts, 20U);
  const proto::JobStatus parked = harness_.status();
  EXPECT_EQ(parked.state, proto::RunState::kWaiting);
  EXPECT_THAT(parked.detail, HasSubstr("no worker is left"));
  EXPECT_THAT(parked.detail, HasSubstr("the next spot is started in "));
  EXPECT_EQ(parked.usd_per_hour, 0);
  for (int i = 0; i < 132 && workers_.size() < 2; ++i) {  // 11 minutes
    AnswerFor(seconds(5), seconds(5), "a");
  }
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
  EXPECT_EQ(harness_.status().fleet.at(0).present, 2U);
}

TEST_F(ZonesTest, StatusSaysWhatWaitsForHowLongAndWhy) {
  EXPECT_EQ(harness_.status().fleet.at(0).waiting, 0U);
  LoseAll();
  AnswerFor(minutes(2), milliseconds(500), "");
  const proto::FleetRow row = harness_.status().fleet.at(0);
  EXPECT_EQ(row.waiting, 2U);
  EXPECT_GT(row.wait_s, 0);
  EXPECT_LE(row.wait_s, 600);
  EXPECT_THAT(row.why, HasSubstr("zone a: "));
  EXPECT_THAT(row.why, HasSubstr("starts came to nothing: was not started: no machine"));
}

TEST_F(ZonesTest, AnotherCoordinatorKnowsWhatWaits) {
  LoseAll();
  AnswerFor(minutes(2), milliseconds(500), "");
  const proto::FleetRow before = harness_.status().fleet.at(0);
  ASSERT_EQ(before.waiting, 2U);
  harness_.Restart();
  const proto::FleetRow after = harness_.status().fleet.at(0);
  EXPECT_EQ(after.waiting, 2U);
  EXPECT_NEAR(after.wait_s, before.wait_s, 1);
  EXPECT_EQ(after.why, before.why);
  harness_.fleet.workers.clear();
  harness_.Wait(seconds(1));
  EXPECT_THAT(Started(), IsEmpty()) << "it is not their turn yet";
}

TEST_F(ZonesTest, WhoAsksNeedNotWait) {
  LoseAll();
  AnswerFor(minutes(5), seconds(5), "");
  harness_.Give(control_, proto::ScaleRequest{{{"spot", 2, false}}});
  EXPECT_TRUE(harness_.Take<proto::ScaleReply>(control_).has_value());
  harness_.Wait(milliseconds(100));
  EXPECT_THAT(Started(), ElementsAre("0 in a", "1 in b"));
}

TEST_F(ZonesTest, AProgramThatFailsIsTriedInEveryZoneBeforeTheRunEnds) {
  LoseAll();
  std::vector<std::string> starts;
  for (int i = 0; i < 300 && harness_.status().state == proto::RunState::kWaiting; ++i) {
    harness_.Wait(milliseconds(100));
    const auto begun = harness_.fleet.workers;
    std::ranges::copy(Started(), std::back_inserter(starts));
    for (const auto& [seat, group] : begun) {
      harness_.FailWorker(seat.value, 0, "no such file");
    }
  }
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed);
  EXPECT_THAT(harness_.status().detail, HasSubstr("every worker failed"));
  for (const char* zone : {"a", "b"}) {
    const auto is_there = [&](const std::string& start) { return start.ends_with(zone); };
    EXPECT_GE(std::ranges::count_if(starts, is_there), 3) << zone;
  }
}

TEST_F(ZonesTest, AFleetThatGrowsDoesSoNoFasterThanItsLimit) {
  harness_.Give(control_, proto::ScaleRequest{{{"spot", 16, false}}});
  harness_.Wait(milliseconds(200), workers_);
  EXPECT_THAT(Started(), testing::SizeIs(testing::AllOf(testing::Ge(4U), testing::Le(5U))));
  harness_.Wait(seconds(1), workers_);
  EXPECT_THAT(Started(), testing::SizeIs(testing::AllOf(testing::Ge(3U), testing::Le(5U))));
  harness_.Wait(seconds(2), workers_);
  EXPECT_THAT(Started(), testing::SizeIs(testing::AllOf(testing::Ge(4U), testing::Le(7U))));
  harness_.Wait(seconds(2), workers_);
  EXPECT_THAT(Started(), IsEmpty()) << "all 14 are on their way";
}

}  // namespace
}  // namespace ps::coordinator
