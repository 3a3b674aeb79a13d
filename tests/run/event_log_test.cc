#include "run/directory/event_log.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ps/base/random.h"
#include "tests/base/temporary_folder.h"

namespace ps::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kLost =
    "t=9.5 time=2026-11-22T21:03:17.264Z node=coordinator level=info event=worker_lost worker=3 "
    "incarnation=4 reason=\"killed by signal 9: it said \\\"no\\\"\" steps=12";

std::string TextOf(std::string_view line) {
  const std::optional<LogLine> parsed = ParseLogLine(line);
  const auto event = parsed ? EventOf(*parsed) : std::nullopt;
  return event ? std::string(proto::EventKindName(event->kind)) + ": " + event->text : "";
}

std::vector<std::string> TextsOf(const std::vector<proto::EventRow>& events) {
  std::vector<std::string> texts;
  for (const proto::EventRow& event : events) {
    texts.push_back(event.text);
  }
  return texts;
}

std::string EventLineOf(std::string_view event) {
  return "t=1 time=2026-11-22T21:03:17.000Z node=coordinator level=info event=" +
         std::string(event) + "\n";
}

TEST(EventLogTest, ALineOfTheLogIsASentenceWithItsReason) {
  EXPECT_EQ(
      TextOf(kLost),
      "revocation: worker 3 lost after 12 steps: killed by signal 9: it said \"no\"");
  EXPECT_EQ(ParseLogLine(kLost)->unix_s, 1795381397.264);
}

TEST(EventLogTest, APartThatLacksAFieldIsLeftOut) {
  const std::string head = "t=1 time=2026-11-22T21:03:17.000Z event=worker_never_joined worker=3";
  EXPECT_EQ(TextOf(head + " waited_s=60"), "give-up: worker 3 never joined, waited 60 s");
  EXPECT_EQ(TextOf(head + " reason=\"exited\""), "give-up: worker 3 never joined: exited");
}

TEST(EventLogTest, WhatIsNoLineOrOfNoInterestIsNoEvent) {
  for (const std::string_view line :
       {"",
        "hello",
        "=",
        "event=paused",
        "time=yesterday event=paused samples_counted=1",
        "time=2026-13-22T21:03:17.000Z event=paused",
        "time=2026-11-22T21:03:17.000Z event=\"paused",
        "time=2026-11-22T21:03:17.000Z event=peer_closed peer=2",
        "time=2026-11-22T21:03:17.000Z event=worker_lost"}) {
    EXPECT_EQ(TextOf(line), "") << line;
  }
}

TEST(EventLogTest, AnyBytesAreTaken) {
  Random random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string line(kLost);
    for (uint64_t change = random.Below(4); change > 0; --change) {
      line[random.Below(line.size())] = static_cast<char>(random.Below(256));
    }
    line.resize(random.Below(line.size() + 1));
    TextOf(line);
  }
}

TEST(EventLogTest, WhoIsLostAgainAndAgainIsToldWithTheReason) {
  EXPECT_EQ(
      TextOf("t=1 time=2026-11-22T21:03:17.000Z level=warning event=worker_lost_again worker=2 "
             "why=\"lost 3 times in a row, each time with: no heartbeat\""),
      "give-up: worker 2 has failed, though it ended with no error: lost 3 times in a row, each "
      "time with: no heartbeat");
}

TEST(EventLogTest, WhoAskedForAFleetIsToldWhereTheLogSaysIt) {
  const std::string head = "t=1 time=2026-11-22T21:03:17.000Z level=info event=";
  EXPECT_EQ(
      TextOf(head + "scaled workers_before=4 workers=8 by=policy"),
      "scale: 8 workers wanted, 4 before; asked by policy");
  EXPECT_EQ(
      TextOf(head + "scaled workers_before=4 workers=8"), "scale: 8 workers wanted, 4 before");
  EXPECT_EQ(
      TextOf(head + "servers_scaled servers_before=1 servers=3 shares=even by=psctl"),
      "scale: 3 servers wanted, 1 before; asked by psctl");
  EXPECT_EQ(
      TextOf(head + "servers_move servers=1 by=psctl"),
      "scale: chunks move, for 1 servers in the end; asked by psctl");
  EXPECT_EQ(
      TextOf(head + "servers_move servers=1 by="), "scale: chunks move, for 1 servers in the end");
  EXPECT_EQ(
      TextOf(head + "workers_missing missing=\"worker 2, worker 3\""),
      "wait: training begins without some that have not come: worker 2, worker 3");
  EXPECT_EQ(
      TextOf(head + "no_room_for_worker members=64"),
      "give-up: one more worker is refused: the servers have room for the gradients of 64");
}

TEST(EventLogTest, WhatAFleetWaitsForIsToldWithItsZone) {
  const std::string head = "t=1 time=2026-11-22T21:03:17.000Z level=warning event=";
  EXPECT_EQ(
      TextOf(
          head + "type_left_out type=\"spot in zone a\" seconds=60 failures=3 why=\"no machine\""),
      "wait: spot in zone a is left out for 60 s: 3 starts came to nothing, the last one: no "
      "machine");
  EXPECT_EQ(
      TextOf(head + "fleet_start worker=3 type=spot zone=a reason=\"2 are wanted\""),
      "replace: worker 3 is started on spot in zone a: 2 are wanted");
  EXPECT_EQ(
      TextOf(head + "fleet_start worker=3 type=spot zone= reason=\"2 are wanted\""),
      "replace: worker 3 is started on spot: 2 are wanted");
  EXPECT_EQ(
      TextOf(head + "process_not_started server=1 why=\"no such file\""),
      "give-up: server 1 was not started: no such file");
}

TEST(EventLogTest, SecondsHaveAsManyDigitsAsPeopleRead) {
  const std::string head =
      "t=1 time=2026-11-22T21:03:17.000Z event=checkpoint checkpoint=3 seconds=";
  for (const auto& [logged, told] :
       {std::pair("0.0706595", "0.0707"),
        std::pair("600.931", "601"),
        std::pair("12345.6", "12346"),
        std::pair("20", "20")}) {
    EXPECT_EQ(
        TextOf(head + logged), std::string("checkpoint: checkpoint 3 written in ") + told + " s");
  }
}

proto::EventRow Paused(uint64_t number) {
  return {
      .number = number,
      .unix_s = 0.25,
      .code = proto::EventCode::kPaused,
      .kind = proto::EventKind::kPause,
      .text = "on \x1b[31mrequest",
      .by = "psctl",
      .why = "it was",
      .others = "none"};
}

TEST(EventLogTest, EventsAsTextAndAsJson) {
  const proto::EventRow event = Paused(7);
  EXPECT_THAT(RenderEvent(event), "00:00:00Z  pause       on ?[31mrequest");
  EXPECT_EQ(
      EventToJson(event),
      "{\"unix_s\":0.25,\"kind\":\"pause\",\"text\":\"on \\u001b[31mrequest\",\"number\":7,"
      "\"code\":\"paused\",\"by\":\"psctl\",\"why\":\"it was\",\"others\":\"none\"}\n");
  EXPECT_EQ(EventFromJson(EventToJson(event)), event);
  EXPECT_FALSE(EventFromJson(R"({"unix_s": 1, "text": "without a number"})").has_value());
  const auto newer =
      EventFromJson(R"({"unix_s": 1, "kind": "new", "text": "said", "number": 2, "code": "new"})");
  ASSERT_TRUE(newer.has_value());
  EXPECT_EQ(newer->text, "said") << "of a program that knows more";
}

TEST(EventLogTest, EventsThatAreNoLinesAreNone) {
  const std::string line = EventToJson(Paused(1));
  Random random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = line;
    for (uint64_t change = random.Below(4); change > 0; --change) {
      damaged[random.Below(damaged.size())] = static_cast<char>(random.Below(256));
    }
    damaged.resize(random.Below(damaged.size() + 1));
    EventFromJson(damaged);
  }
  for (const char* const time : {R"("nan")", R"("1")", "1e999", "null"}) {
    EXPECT_FALSE(
        EventFromJson(std::string(R"({"unix_s": )") + time + R"(, "number": 1, "text": "said"})"))
        << time << " is no time";
  }
}

TEST(EventFileTest, EachEventIsThereOnceWhoeverWroteIt) {
  const TemporaryFolder folder;
  const RunPaths run{folder.path()};
  std::filesystem::create_directories(run.logs());
  std::ofstream(run.coordinator_log()) << EventLineOf("continued");
  EventReader early(run);
  EXPECT_EQ(early.ReadNew()->size(), 1U) << "of a program that left no events";
  {
    auto file = EventFile::Open(run);
    ASSERT_TRUE(file.ok()) << file.status();
    file->Add(Paused(1));
    file->Add(Paused(2));
  }
  EventReader reader(run);
  EXPECT_EQ(reader.ReadNew()->size(), 2U);
  auto next = EventFile::Open(run);
  ASSERT_TRUE(next.ok()) << next.status();
  next->Add(Paused(2));
  next->Add(Paused(3));
  const auto more = reader.ReadNew();
  ASSERT_EQ(more->size(), 1U) << "of what another coordinator told again";
  EXPECT_EQ(more->front(), Paused(3));
}

/// Its journal was refused, and it goes on from a checkpoint: nobody knows the numbers any more.
TEST(EventFileTest, ACoordinatorThatCountsFromOneAgainIsToldOfAll) {
  const TemporaryFolder folder;
  const RunPaths run{folder.path()};
  std::filesystem::create_directories(run.logs());
  {
    EventFile file = EventFile::Open(run).value();
    file.Add(Paused(1));
    file.Add(Paused(2));
  }
  EventFile next = EventFile::Open(run).value();
  proto::EventRow fresh = Paused(1);
  fresh.unix_s = 7;
  next.Add(fresh);
  fresh.number = 2;
  next.Add(fresh);
  next.Add(fresh);
  EXPECT_EQ(EventReader(run).ReadNew()->size(), 4U);
}

TEST(EventReaderTest, ReadsWhatIsNewAlsoBeyondARotation) {
  const TemporaryFolder folder;
  const RunPaths run{folder.path()};
  std::filesystem::create_directories(run.logs());
  EventReader reader(run);
  EXPECT_FALSE(reader.ReadNew().ok()) << "there is no log";
  const auto append = [&](const std::string& text) {
    std::ofstream(run.coordinator_log(), std::ios::app) << text;
  };
  append(EventLineOf("paused") + EventLineOf("shard_is_back shard=1").substr(0, 30));
  EXPECT_EQ(reader.ReadNew()->size(), 1U);
  append(EventLineOf("shard_is_back shard=1").substr(30));
  EXPECT_THAT(TextsOf(*reader.ReadNew()), ElementsAre("shard 1 is back"));
  EXPECT_THAT(*reader.ReadNew(), IsEmpty());
  append(EventLineOf("shard_is_back shard=2"));
  std::filesystem::copy_file(run.coordinator_log(), run.coordinator_log() + ".1");
  std::ofstream(run.coordinator_log()) << EventLineOf("shard_is_back shard=3");
  EXPECT_THAT(TextsOf(*reader.ReadNew()), ElementsAre("shard 2 is back", "shard 3 is back"));
  EXPECT_EQ(EventReader(run).ReadNew()->size(), 4U) << "the log before, too";
}

}  // namespace
}  // namespace ps::run
