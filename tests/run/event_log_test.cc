#include "run/directory/event_log.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

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
  return event ? event->kind + ": " + event->text : "";
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

std::string TextOfFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();  // tests run in the repository root
  return text.str();
}

/// A renamed event would be told no more, and nobody would notice.
TEST(EventLogTest, EveryEventThatIsToldIsLogged) {
  std::string sources = TextOfFile("provisioner/fleet/job_fleet.cc");
  for (const auto& entry : std::filesystem::recursive_directory_iterator("ps/coordinator")) {
    if (entry.path().extension() == ".cc") {
      sources += TextOfFile(entry.path());
    }
  }
  for (const std::string_view event : ToldEvents()) {
    if (event == "replan_failed") {
      continue;  // of older programs
    }
    EXPECT_THAT(sources, HasSubstr("\"" + std::string(event) + "\""));
  }
}

/// The names in each call of the log, debugging left out: there are two where one is chosen.
std::vector<std::string> LoggedEvents(const std::string& path) {
  const std::regex call("log_?(->|\\.)(Info|Warning|Error)\\(");
  const std::regex name("\"([a-z_]+)\"");
  const std::string text = TextOfFile(path);
  std::vector<std::string> events;
  for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it) {
    const auto begin = static_cast<size_t>(it->position() + it->length());
    const std::string before_fields = text.substr(begin, text.find_first_of("{;", begin) - begin);
    for (std::sregex_iterator found(before_fields.begin(), before_fields.end(), name); found != end;
         ++found) {
      events.push_back((*found)[1]);
    }
  }
  return events;
}

/// What is decided while a job runs is told, or it is known why not.
TEST(EventLogTest, EveryEventOfACoordinatorIsToldOrNamedHere) {
  const std::set<std::string> untold = {
      "process_started",      // fleet_start says so, and worker_joins
      "process_ended",        // what comes of it is told: worker_lost, worker_left, server_lost
      "process_adopted",      // job_resumed says that there is another coordinator
      "process_gone",         // worker_lost and server_lost follow
      "shard_came",           // one of several of a server that servers_scaled tells of
      "shard_registered",     // job_started and shards_changed count them
      "shard_ready",          // shard_is_back says so of one that was lost
      "shard_disconnected",   // it may come back; server_lost says that it does not
      "job_begins",           // job_started says so
      "checkpoint_begins",    // checkpoint says how it went
      "copied",               // psctl status says how far the copies are
      "enough",               // stop_requested has the reason
      "leaving",              // finished has the outcome
      "model_being_saved",    // model_saved or model_not_saved follow
      "outranked",            // job_resumed is the other coordinator's
      "refused",              // whoever refused says why in its own log
      "step_rejected",        // training_diverged says when these are many
      "departure_resolved",   // worker_lost and worker_left count the steps
      "steps_without_lease",  // likewise
      "lease_cut",            // worker_left says what it has done
      "end_without_policy",   // the run is over then
      "model_of_checkpoint",  // psctl prints it at the end
      "stop",                 // stop_requested has the reason
      "stop_at_once",         // likewise
  };
  std::vector<std::string> paths = {"provisioner/fleet/job_fleet.cc", "run/train_run.cc"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator("ps/coordinator")) {
    if (entry.path().extension() == ".cc") {
      paths.push_back(entry.path());
    }
  }
  const std::vector<std::string_view> told = ToldEvents();
  std::set<std::string> seen;
  for (const std::string& path : paths) {
    for (const std::string& event : LoggedEvents(path)) {
      seen.insert(event);
      EXPECT_NE(std::ranges::count(told, event), untold.contains(event) ? 1 : 0)
          << event << " of " << path;
    }
  }
  EXPECT_TRUE(seen.contains("release_asked")) << "one of two names is chosen where it is logged";
  for (const std::string& event : untold) {
    EXPECT_TRUE(seen.contains(event)) << event << " is logged no more";
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

TEST(EventLogTest, EventsAsTextAndAsJson) {
  const proto::EventRow event = {0.25, "pause", "on \x1b[31mrequest"};
  EXPECT_THAT(RenderEvent(event), "00:00:00Z  pause       on ?[31mrequest");
  EXPECT_EQ(
      EventToJson(event),
      "{\"unix_s\":0.25,\"kind\":\"pause\",\"text\":\"on \\u001b[31mrequest\"}\n");
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
