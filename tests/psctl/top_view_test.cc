#include "psctl/view/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/psctl/golden.h"
#include "tests/run/sample_status.h"

namespace ps::psctl {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::ResultOf;
using ::testing::SizeIs;

TopSnapshot MakeSnapshot() {
  TopSnapshot snapshot;
  snapshot.status = run::MakeStatus();
  proto::JobStatus& status = snapshot.status;
  status.usd_spent = 0.0321;
  status.usd_per_hour = 2.3;
  status.workers[1].clock = 698;
  for (proto::WorkerRow& row : status.workers) {
    row.type = "g4dn.xlarge";
    row.usd_per_hour = 0.526;
  }
  for (proto::ShardRow& row : status.shards) {
    row.received_bytes_per_s = 12.5e6;
    row.sent_bytes_per_s = 14.5e6;
  }
  status.checkpoints.is_on = true;
  status.checkpoints.newest = 3;
  status.checkpoints.age_s = 12.25;
  for (int i = 0; i < 30; ++i) {
    snapshot.losses.push_back(2.3 * std::exp(-0.1 * i));
    proto::EventRow event;
    event.unix_s = 1706702400.0 + i;
    event.kind = proto::EventKind::kCheckpoint;
    event.text = "checkpoint " + std::to_string(i) + " written in 0.2 s";
    status.events.push_back(std::move(event));
  }
  return snapshot;
}

std::string Screen(const TopSnapshot& snapshot, size_t width, size_t height) {
  std::string text;
  for (const std::string& line : RenderTop(snapshot, width, height)) {
    text += line + "\n";
  }
  return text;
}

TEST(TopViewTest, TrafficIsShownBesideWhatMachinesCost) {
  TopSnapshot snapshot = MakeSnapshot();
  snapshot.status.traffic.usd = 0.42;
  snapshot.status.traffic.usd_per_hour = 0.2;
  snapshot.status.traffic.bytes = 1;
  EXPECT_THAT(
      Screen(snapshot, 160, 40),
      HasSubstr("cost 0.032 USD, 2.30 USD/h, traffic 0.42 USD, 0.20 USD/h"));
  snapshot.status.usd_spent = snapshot.status.usd_per_hour = 0;
  EXPECT_THAT(Screen(snapshot, 160, 40), HasSubstr("  traffic 0.42 USD, 0.20 USD/h"));
}

TEST(TopViewTest, HowManySamplesEpochsAreMeasuredOnIsShown) {
  TopSnapshot snapshot = MakeSnapshot();
  EXPECT_THAT(Screen(snapshot, 120, 40), Not(HasSubstr("validation")));
  snapshot.status.validation_samples = 6'000;
  snapshot.status.evaluations = {{.epoch = 2, .accuracy = 0.5, .loss = 1, .samples = 6'000}};
  EXPECT_THAT(Screen(snapshot, 120, 40), HasSubstr("validation 50.00 % (epoch 2, 6,000 samples)"));
  snapshot.status.evaluations.clear();
  EXPECT_THAT(Screen(snapshot, 120, 40), HasSubstr("6,000 validation samples"));
}

TEST(TopViewTest, ASmallTerminalShowsWhatMattersMost) {
  EXPECT_EQ(Screen(MakeSnapshot(), 80, 24), Golden("top_80x24.txt"));
}

TEST(TopViewTest, WorkersThatCannotBeStartedHaveALine) {
  TopSnapshot snapshot = MakeSnapshot();
  EXPECT_THAT(Screen(snapshot, 80, 24), ::testing::Not(HasSubstr("waiting: ")));
  snapshot.status.fleet = {{"slow", 2, 0, 2, 590, "zone a: no machine"}};
  EXPECT_THAT(
      Screen(snapshot, 80, 24), HasSubstr("\nwaiting: 2 workers of slow for 9m 50s: zone a: no"));
}

TEST(TopViewTest, WhyNobodyTrainsIsReadToItsEnd) {
  TopSnapshot snapshot = MakeSnapshot();
  snapshot.status.state = proto::RunState::kWaiting;
  snapshot.status.detail =
      "no worker is left; checkpoint 13 has all that was done, and the servers are parked; "
      "training goes on as soon as one joins";
  for (proto::WorkerRow& row : snapshot.status.workers) {
    row.state = proto::WorkerRowState::kLeft;
  }
  const std::string screen = Screen(snapshot, 80, 24);
  EXPECT_THAT(
      screen,
      ::testing::StartsWith(
          "fashion-mnist   waiting   35.5 s so far\n"
          "no worker is left; checkpoint 13 has all that was done, and the servers are\n"
          "parked; training goes on as soon as one joins\n"));
  EXPECT_THAT(screen, ::testing::Not(HasSubstr(" left\n"))) << "nobody knows how long it takes";
  EXPECT_THAT(screen, HasSubstr("\n\nno workers\n\n"));
}

TEST(TopViewTest, AWorkerThatJoinsIsNotBehindYet) {
  TopSnapshot snapshot = MakeSnapshot();
  snapshot.status.workers[1].state = proto::WorkerRowState::kJoining;
  EXPECT_THAT(
      Screen(snapshot, 80, 24), ::testing::ContainsRegex("\n     1  joining +[0-9.]+ +-  "));
}

TEST(TopViewTest, ALargeTerminalShowsAll) {
  EXPECT_EQ(Screen(MakeSnapshot(), 120, 40), Golden("top_120x40.txt"));
}

TEST(TopViewTest, FitsIntoEverySize) {
  TopSnapshot snapshot = MakeSnapshot();
  for (uint32_t i = 10; i < 40; ++i) {
    snapshot.status.workers.push_back(run::MakeWorkerRow(i, i, proto::WorkerRowState::kComputing));
    snapshot.status.shards.push_back(snapshot.status.shards[0]);
  }
  snapshot.trouble = "the coordinator does not answer; waiting for it: " + std::string(200, 'x');
  for (size_t width = 1; width < 140; width += 3) {
    for (size_t height = 1; height < 60; height += 2) {
      const std::vector<std::string> lines = RenderTop(snapshot, width, height);
      EXPECT_THAT(lines, SizeIs(Le(height)));
      EXPECT_THAT(lines, Each(ResultOf([](const std::string& l) { return l.size(); }, Le(width))));
    }
  }
}

TEST(TopViewTest, ManyWorkersLeaveRoomForServersAndEvents) {
  TopSnapshot snapshot = MakeSnapshot();
  for (uint32_t i = 10; i < 70; ++i) {
    snapshot.status.workers.push_back(run::MakeWorkerRow(i, i, proto::WorkerRowState::kComputing));
  }
  const std::string screen = Screen(snapshot, 80, 24);
  EXPECT_THAT(screen, HasSubstr("more workers"));
  EXPECT_THAT(screen, HasSubstr("ready"));
  EXPECT_THAT(screen, HasSubstr("checkpoint 29 written"));
}

TEST(TopViewTest, WhereThereIsRoomForOneTableItIsThatOfTheWorkers) {
  TopSnapshot snapshot = MakeSnapshot();
  for (uint32_t i = 10; i < 20; ++i) {
    snapshot.status.workers.push_back(run::MakeWorkerRow(i, i, proto::WorkerRowState::kComputing));
  }
  const std::string screen = Screen(snapshot, 80, 16);
  EXPECT_THAT(screen, HasSubstr("computing"));
  EXPECT_THAT(screen, HasSubstr("more workers"));
  EXPECT_THAT(screen, ::testing::Not(HasSubstr("more shards")));
}

TEST(TopViewTest, ALostCoordinatorIsSaid) {
  TopSnapshot snapshot;
  snapshot.trouble = "the coordinator does not answer; waiting for it";
  EXPECT_THAT(Screen(snapshot, 80, 24), HasSubstr("waiting for it"));
}

TEST(TopViewTest, NothingOfOthersReachesTheTerminalAsItIs) {
  TopSnapshot snapshot = MakeSnapshot();
  snapshot.status.name = "a\x1b[2J";
  snapshot.status.detail = "b\x1b[2J";
  snapshot.status.workers[0].host = "c\x1b[2J";
  snapshot.status.events.back().text = "d\x1b[2J";
  EXPECT_EQ(Screen(snapshot, 120, 40).find('\x1b'), std::string::npos);
}

TEST(TopViewTest, StatesHaveColoursAndNothingElseChanges) {
  EXPECT_EQ(
      Coloured("fashion-mnist   training   35.5 s so far", true),
      "fashion-mnist   \x1b[32mtraining\x1b[39m   35.5 s so far");
  EXPECT_EQ(
      Coloured("     0  computing        812", false),
      "     0  \x1b[32mcomputing\x1b[39m        812");
  EXPECT_EQ(Coloured("    12  lost", false), "    12  \x1b[31mlost\x1b[39m");
  EXPECT_EQ(
      Coloured("     3  sits out      0.0", false), "     3  \x1b[33msits out\x1b[39m      0.0");
  for (const char* plain :
       {"",
        "   ",
        "worker  state      samples/s",
        "12:00:20Z  lost  worker 1 lost",
        "2,431 samples/s   workers 2/3   ssp:3",
        "    12",
        "    12  ",
        "    12  elsewhere  lost"}) {
    EXPECT_EQ(Coloured(plain, false), plain);
  }
  for (const char* plain : {"", "name", "name   training", "a   odd   b"}) {
    EXPECT_EQ(Coloured(plain, true), plain);
  }
}

TEST(SparklineTest, GoesFromTheLeastToTheLargest) {
  EXPECT_EQ(Sparkline({1, 2, 10}, 8), "_.@");
  EXPECT_EQ(Sparkline({1, 2, 10}, 2), "_@");
  EXPECT_EQ(Sparkline({5, 5}, 8), "__");
  EXPECT_EQ(Sparkline({1, std::nan(""), HUGE_VAL, 2}, 8), "_!!@");
  EXPECT_EQ(Sparkline({}, 8), "");
}

}  // namespace
}  // namespace ps::psctl
