// Availability traces, and what a replay of one comes to.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/base/random.h"
#include "psctl/traces/replay_command.h"
#include "psctl/traces/replay_report.h"
#include "psctl/traces/replay_trace.h"
#include "tests/run/sample_status.h"

namespace ps::psctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<TraceStep> StepsOf(const std::string& text) {
  const auto trace = ParseTrace(text, "t.csv", 0.001);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.ok() ? trace->steps : std::vector<TraceStep>();
}

std::string TraceError(const std::string& text) {
  const auto trace = ParseTrace(text, "t.csv", 0.001);
  return trace.ok() ? "" : std::string(trace.status().message());
}

TEST(TraceTest, CountsOverTimeAreRead) {
  EXPECT_THAT(
      StepsOf("0,1\n0,2\n2000,2\r\n\n3000,1\n"), ElementsAre(TraceStep{0, 2}, TraceStep{3, 1}));
  EXPECT_THAT(StepsOf("1000,4\n"), ElementsAre(TraceStep{0, 0}, TraceStep{1, 4}));
}

/// As tables are written by other programs: with a mark of their encoding, and names of columns.
TEST(TraceTest, WhatProgramsWriteAboveTheirLinesIsLeftOut) {
  const std::string mark = "\xEF\xBB\xBF";
  for (const std::string& before :
       {mark, std::string("time_ms,nodes\n"), mark + "\"Time\", \"Count\"\r\n", mark + "\n"}) {
    EXPECT_THAT(StepsOf(before + "0,2\n3000,1\n"), ElementsAre(TraceStep{0, 2}, TraceStep{3, 1}))
        << before;
  }
  EXPECT_THAT(
      StepsOf("time,event,node\n0,add,a\n1000,add,b\n"),
      ElementsAre(TraceStep{0, 1}, TraceStep{1, 2}));
  EXPECT_THAT(
      StepsOf(mark + "date, time, count\n2021-12-11, 23:59:50, 55\n2021-12-11, 23:59:55, 54\n"),
      ElementsAre(TraceStep{0, 55}, TraceStep{5, 54}));
  EXPECT_THAT(
      StepsOf(mark + R"({"metadata": {"gap_seconds": 600}, "data": [1, 2]})"),
      ElementsAre(TraceStep{0, 1}, TraceStep{600, 2}));
  EXPECT_EQ(
      TraceError("time,nodes\n0,1\n5,-2\n"), "t.csv:3: expected a count of machines; got '-2'");
  EXPECT_EQ(TraceError("time,nodes\n"), "t.csv: the trace is empty");
  EXPECT_EQ(ParsePrices(mark + "ms,usd\r\n0,1\r\n60,2\r\n", "p.csv", 1)->size(), 2U);
  EXPECT_THAT(
      std::string(ParsePrices("time,price\n0,1\n5,x\n", "p.csv", 1).status().message()),
      HasSubstr("p.csv:3: expected a price"));
  const std::string expected = ": expected TIME,COUNT or TIME,add|remove,NODE; got ";
  EXPECT_EQ(TraceError("0,1\ntime,nodes\n"), "t.csv:2" + expected + "'time,nodes'");
  EXPECT_EQ(TraceError("time,nodes\ntime,nodes\n0,1\n"), "t.csv:2" + expected + "'time,nodes'");
  EXPECT_EQ(TraceError("x,2\n0,1\n"), "t.csv:1" + expected + "'x,2'");
  EXPECT_EQ(TraceError("x,add,a\n0,1\n"), "t.csv:1" + expected + "'x,add,a'");
}

TEST(TraceTest, NodesThatComeAndGoAreCounted) {
  EXPECT_THAT(
      StepsOf("0,add,a\n0,add,b\n1000,remove,a\n2000,add,c\n"),
      ElementsAre(TraceStep{0, 2}, TraceStep{1, 1}, TraceStep{2, 2}));
}

TEST(TraceTest, EventsAsListsAreRead) {
  const auto trace = ParseTrace(
      "[0, \"add\", {\"nodes\": [\"a\", \"b\"], \"duration\": 60000}]\r\n\n"
      "[60000, \"no-op\", {\"nodes\": [], \"duration\": 60000}]\n"
      "[120000, \"remove\", {\"nodes\": [\"a\"], \"duration\": 60000}]\n"
      "[180000, \"migration\", {\"nodes\": [], \"duration\": 60000}]\n",
      "t.txt",
      0.001);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->steps, ElementsAre(TraceStep{0, 2}, TraceStep{120, 1}));
  EXPECT_EQ(trace->end_s, 240) << "the last event lasts, too";
}

/// An hour that Parcae ran its BERT on.
TEST(TraceTest, ParcaesCutsAreRead) {
  const auto text = ReadFile("tests/data/parcae/trace_hh_55_65.txt");
  ASSERT_TRUE(text.ok()) << text.status();
  const auto trace = ParseTrace(*text, "trace_hh_55_65.txt", 0.001);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->end_s, 3600);
  EXPECT_EQ(trace->steps.front(), (TraceStep{0, 32}));
  EXPECT_NEAR(NodeSeconds(*trace) / trace->end_s, 27.483, 0.001);
}

TEST(TraceTest, JsonIsRead) {
  const auto trace =
      ParseTrace(R"({"metadata": {"gap_seconds": 600}, "data": [1, 1, 0, 1]})", "t.json", 0.001);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->steps, ElementsAre(TraceStep{0, 1}, TraceStep{1200, 0}, TraceStep{1800, 1}));
  EXPECT_EQ(trace->end_s, 2400);
}

TEST(TraceTest, AMistakeIsNamedWithItsLine) {
  EXPECT_EQ(
      TraceError("0,1\nx,2\n"), "t.csv:2: expected TIME,COUNT or TIME,add|remove,NODE; got 'x,2'");
  EXPECT_EQ(TraceError("0,1\n5,-2\n"), "t.csv:2: expected a count of machines; got '-2'");
  EXPECT_EQ(
      TraceError("5,1\n\n4,2\n"),
      "t.csv:3: the time is before that of the line above: sort the lines, or leave late ones out");
  EXPECT_EQ(
      TraceError("0,add,a\n1,add,a\n"),
      "t.csv:2: node 'a' is there already: leave the line out, or give another node another name");
  EXPECT_EQ(
      TraceError("0,remove,\x1b[2J\n"),
      "t.csv:1: node '?[2J' is not there: leave the line out, or add the node first");
  EXPECT_EQ(TraceError("0,grow,a\n"), "t.csv:1: expected add or remove; got 'grow'");
  EXPECT_EQ(TraceError("0,14001\n"), "t.csv:1: 14001 machines; at most 14000 are taken");
  EXPECT_EQ(TraceError("nan,1\n"), "t.csv:1: the time is not within 0 and 1e9 s");
  EXPECT_EQ(TraceError("\n"), "t.csv: the trace is empty");
  EXPECT_THAT(
      TraceError(R"({"data": [1]})"), HasSubstr("t.csv:1:1: expected metadata.gap_seconds"));
  EXPECT_THAT(
      TraceError("{\"metadata\": {\"gap_seconds\": 1},\n\"data\": [1, \"x\"]}"),
      HasSubstr("t.csv:2:13: expected a count"));
  const auto json = [](const std::string& gap_seconds, const std::string& data) {
    return TraceError(
        R"({"metadata": {"gap_seconds": )" + gap_seconds + R"(}, "data": )" + data + "}");
  };
  EXPECT_THAT(
      json("600", "[1, -2]"), HasSubstr("t.csv:1:48: expected a count of machines; got -2"));
  EXPECT_THAT(json("600", "[1, 2.5]"), HasSubstr("expected a count of machines; got 2.5"));
  EXPECT_THAT(json("600", "[1, \"3\"]"), HasSubstr("expected a count of machines; got a text"));
  EXPECT_THAT(json("600", "null"), HasSubstr("t.csv:1:44: expected data, a list of counts"));
  for (const char* gap_seconds : {"null", "\"600\"", "0", "-1"}) {
    EXPECT_THAT(json(gap_seconds, "[1]"), HasSubstr("metadata.gap_seconds, a number above 0"));
  }
  const std::string event = "[0, \"add\", {\"nodes\": [\"a\"], \"duration\": 5}]\n";
  const std::pair<const char*, const char*> events[] = {
      {"[1, \"add\"]", "2:1: expected [TIME, \"add\", {\"nodes\""},
      {"[-1, \"add\", {}]", "2:1: expected [TIME"},
      {"[1, \"grow\", {}]", "2:5: expected add, remove, no-op or migration; got \"grow\""},
      {"[1, \"add\", {\"nodes\": 3}]", "2:12: expected nodes, a list of names"},
      {"[1, \"add\", {\"nodes\": [7]}]", "2:23: expected the name of a node"},
      {"[1, \"add\", {\"nodes\": [\"a\"]}]", "2:23: node 'a' is there already"},
      {"[1, \"remove\", {\"nodes\": [\"b\"]}]", "2:26: node 'b' is not there"},
      {"[1, \"no-op\", {\"nodes\": [\"a\"]}]", "2:24: only add and remove have nodes"},
      {"[1, \"add\", {\"nodes\": []}]", "2:12: expected duration, a time"},
      {"[1, \"add\", {\"nodes\": [], \"duration\": 1e15}]", "2:1: the end is not within"},
      {"[1", "2:3: "}};
  for (const auto& [line, words] : events) {
    EXPECT_THAT(TraceError(event + line), testing::StartsWith(std::string("t.csv:") + words))
        << line;
  }
  EXPECT_EQ(TraceError("0,1\n5,null\n"), "t.csv:2: expected a count of machines; got 'null'");
}

TEST(TraceTest, ANullInJsonIsAGap) {
  const auto parse = [](const std::string& data, GapRule gaps) {
    return ParseTrace(
        R"({"metadata": {"gap_seconds": 600}, "data": )" + data + "}", "t.json", 0.001, gaps);
  };
  const std::string data = "[2, null, null, 3]";
  EXPECT_THAT(
      std::string(parse(data, GapRule::kRefuse).status().message()),
      testing::AllOf(
          testing::StartsWith("t.json:1:48: the count from hour 0.17 on is missing"),
          HasSubstr("--gaps")));
  EXPECT_THAT(parse(data, GapRule::kHold)->steps, ElementsAre(TraceStep{0, 2}, TraceStep{1800, 3}));
  EXPECT_THAT(
      parse(data, GapRule::kNone)->steps,
      ElementsAre(TraceStep{0, 2}, TraceStep{600, 0}, TraceStep{1800, 3}));
  const auto cut = parse(data, GapRule::kCut);
  EXPECT_THAT(cut->steps, ElementsAre(TraceStep{0, 2}, TraceStep{600, 3}));
  EXPECT_EQ(cut->end_s, 1200);
  EXPECT_THAT(
      std::string(parse("[null]", GapRule::kHold).status().message()),
      HasSubstr("t.json:1:44: no count in it is known"));
}

TEST(TraceTest, CountsThatSomebodyPolledAreReadWithTheirDates) {
  EXPECT_THAT(
      StepsOf("2021-12-11, 23:59:50, 55\n2021-12-11, 23:59:55, 55\r\n2021-12-12, 00:00:05, 54\n"),
      ElementsAre(TraceStep{0, 55}, TraceStep{15, 54}));
  const std::string wrong = "t.csv:2: expected YYYY-MM-DD, HH:MM:SS, COUNT; got ";
  const std::string begin = "2021-12-11, 11:11:30, 55\n";
  EXPECT_EQ(TraceError(begin + "2021-13-11, 11:13:10, 5"), wrong + "'2021-13-11, 11:13:10, 5'");
  EXPECT_EQ(TraceError(begin + "2021-12-11, 24:00:00, 5"), wrong + "'2021-12-11, 24:00:00, 5'");
  EXPECT_EQ(TraceError(begin + "2021-12-11, 11:13:10, -5"), wrong + "'2021-12-11, 11:13:10, -5'");
  EXPECT_EQ(TraceError(begin + "2021-12-11, 11:13:10"), wrong + "'2021-12-11, 11:13:10'");
  const std::string back = ": the time is before that of the line above";
  EXPECT_THAT(
      TraceError(begin + "2021-12-11, 11:13:10, 5\n2021-12-11, 11:12:10, 5\n"),
      HasSubstr("t.csv:3" + back));
  EXPECT_THAT(TraceError(begin + "2021-12-11, 10:13:10, 5\n"), HasSubstr("t.csv:2" + back))
      << "before the first";
}

TEST(ReplayPolicyTest, WhatCannotBeReplayedIsSaidInWordsOfTheCommand) {
  for (const char* name : {"", "none", "reactive", "hold", "parcae", "standby", "deadline"}) {
    EXPECT_TRUE(CheckReplayPolicy(name).ok()) << name;
  }
  EXPECT_THAT(
      std::string(CheckReplayPolicy("oracle").message()),
      HasSubstr("--policy oracle knows when each machine goes, which nobody knows of a run"));
  EXPECT_EQ(
      CheckReplayPolicy("parka").message(),
      "--policy wants one of none, reactive, hold, parcae, standby, deadline; got 'parka'");
}

/// The first hours of a trace as Google's cloud was polled, whose sixteenth line is of the end of a
/// gap.
TEST(TraceTest, AGapOfAPolledTraceIsNamedUnlessSomebodySaysWhatToMakeOfIt) {
  const auto text = ReadFile("tests/data/bamboo/a100_us-east1-b.txt");
  ASSERT_TRUE(text.ok()) << text.status();
  const auto parse = [&](GapRule gaps) { return ParseTrace(*text, "a100.txt", 0.001, gaps); };
  EXPECT_THAT(
      std::string(parse(GapRule::kRefuse).status().message()),
      testing::AllOf(
          testing::StartsWith("a100.txt:13: nothing is known of the 0.46 hours before this line, "
                              "from hour 0.51 on, where a count comes every 100 s else"),
          HasSubstr("--gaps")));
  const auto held = parse(GapRule::kHold);
  const auto none = parse(GapRule::kNone);
  const auto cut = parse(GapRule::kCut);
  ASSERT_TRUE(held.ok() && none.ok() && cut.ok());
  EXPECT_EQ(held->end_s, none->end_s);
  // 1,667 and 3,000 s, of which 100 s each are as usual, with 38 and 50 machines before them.
  EXPECT_EQ(held->end_s - cut->end_s, 1567 + 2900);
  EXPECT_EQ(NodeSeconds(*held) - NodeSeconds(*none), 1567 * 38 + 2900 * 50);
  EXPECT_EQ(NodeSeconds(*held) - NodeSeconds(*cut), 1567 * 38 + 2900 * 50);
  EXPECT_EQ(GapRuleOf("cut").value(), GapRule::kCut);
  EXPECT_THAT(
      std::string(GapRuleOf("skip").status().message()),
      HasSubstr("--gaps wants hold, none or cut; got 'skip'"));
}

/// Google's cloud again, where each count that changed was written with times before the last one.
TEST(TraceTest, ARecordedTraceWhoseTimeGoesBackwardsIsRefusedWithTheLineAndARemedy) {
  const auto text = ReadFile("tests/data/bamboo/v100_us-east1-c.txt");
  ASSERT_TRUE(text.ok()) << text.status();
  for (const GapRule gaps : {GapRule::kRefuse, GapRule::kHold, GapRule::kNone, GapRule::kCut}) {
    EXPECT_EQ(
        ParseTrace(*text, "v100.txt", 0.001, gaps).status().message(),
        "v100.txt:4: the time is before that of the line above: sort the lines, or leave late ones "
        "out");
  }
}

TEST(TraceTest, AnyBytesAreTaken) {
  const std::string sources[] = {
      "0,1\n1000,2\n2000,7\n",
      "0,add,a\n1,remove,a\n",
      R"({"metadata": {"gap_seconds": 600}, "data": [1, 1, 0, 1]})",
      "2021-12-11, 11:11:30, 55\n2021-12-11, 11:13:10, 54\n",
      "\xEF\xBB\xBFtime,nodes\r\n0,1\n1000,2\n"};
  Random random(11);
  for (int i = 0; i < 30'000; ++i) {
    std::string text = sources[random.Below(std::size(sources))];
    for (uint64_t change = random.Below(4); change > 0; --change) {
      text[random.Below(text.size())] = static_cast<char>(random.Below(256));
    }
    const auto trace = ParseTrace(text, "t", 0.001, GapRule::kNone);
    if (trace.ok()) {
      EXPECT_GE(NodeSeconds(*trace), 0);
      EXPECT_EQ(trace->steps.front().at_s, 0);
    }
  }
}

TEST(TraceTest, ARecordedTraceIsCutAndScaled) {
  const auto text = ReadFile("tests/data/parcae/p3.csv");
  ASSERT_TRUE(text.ok()) << text.status();
  const auto trace = ParseTrace(*text, "p3.csv", 0.001);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_NEAR(trace->end_s / 3600, 11.37, 0.01);
  EXPECT_NEAR(NodeSeconds(*trace) / trace->end_s, 24.03, 0.05) << "mean of the recording";
  const auto cut = CutTrace(*trace, {.from_hours = 1, .hours = 2, .speedup = 60, .nodes_max = 8});
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->end_s, 120);
  EXPECT_EQ(cut->steps.front().at_s, 0);
  for (size_t i = 1; i < cut->steps.size(); ++i) {
    EXPECT_GT(cut->steps[i].at_s, cut->steps[i - 1].at_s);
    EXPECT_NE(cut->steps[i].nodes, cut->steps[i - 1].nodes);
    EXPECT_LE(cut->steps[i].nodes, 8U);
  }
  EXPECT_THAT(
      std::string(CutTrace(*trace, {.from_hours = 20}).status().message()),
      HasSubstr("the trace is 11.37 h long"));
  EXPECT_FALSE(CutTrace(*trace, {.speedup = 0}).ok());
}

/// A worker's pid is of its own machine: here it would be somebody else's.
TEST(ReplayCommandTest, WorkersOfOtherMachinesAreNotReplayed) {
  proto::JobConfig config;
  EXPECT_TRUE(CheckReplayed(config).ok());
  for (const auto launcher : {proto::LauncherKind::kSsh, proto::LauncherKind::kSlurm}) {
    config.launch.launcher = launcher;
    EXPECT_THAT(
        std::string(CheckReplayed(config).message()), HasSubstr("launch.launcher is not local"));
  }
}

TEST(ReplayCommandTest, AProcessIsKnownByWhatItWasStartedForNotByItsPid) {
  std::string words[] = {
      "sh", "-c", "echo; read line", "--seat", "3", "--log-file", "/runs/a/logs/w3"};
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[0], 1);
  pid_t pid = 0;
  ASSERT_EQ(::posix_spawn(&pid, "/bin/sh", &actions, nullptr, arguments.data(), environ), 0);
  ::posix_spawn_file_actions_destroy(&actions);
  char sign = 0;
  ASSERT_EQ(::read(ends[1], &sign, 1), 1) << "until then it may have no words yet";
  EXPECT_TRUE(IsWorkerOf(pid, "/runs/a", WorkerId(3)));
  EXPECT_FALSE(IsWorkerOf(pid, "/runs/a", WorkerId(4)));
  EXPECT_FALSE(IsWorkerOf(pid, "/runs/b", WorkerId(3)));
  EXPECT_FALSE(IsWorkerOf(::getpid(), "/runs/a", WorkerId(3))) << "some process of this machine";
  ::close(ends[1]);
  ::close(ends[0]);
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
}

/// Workers 0 and 1 take part in run::MakeStatus. The second one waits for half of its time.
TEST(ReplayMeterTest, EachNodeSecondIsSaidToBeForSomething) {
  ReplayReport begun_report;
  begun_report.speedup = 60;
  begun_report.goal.loss = 0.5;
  begun_report.step_s = {{"", 0.64}};  // of 64 samples: 100 samples/s
  ReplayMeter meter(begun_report);
  proto::JobStatus status = run::MakeStatus();
  status.fleet = {{"", 3, 2, 0, 0}};
  const uint64_t begun = status.samples_counted;
  meter.Look(0, 2, status);
  for (int second = 1; second <= 10; ++second) {
    status.samples_counted += 200;
    status.workers[0].stats.samples += 80;  // the host is busy
    status.workers[0].stats.compute_s += 1;
    status.workers[1].stats.samples += 50;
    status.workers[1].stats.compute_s += 0.5;
    status.workers[1].stats.wait_s += 0.4;
    status.workers[1].stats.times.evaluate_s += 0.1;
    meter.Look(second, second <= 8 ? 2 : 4, status);
  }
  meter.NoteRevoked(3);
  const ReplayReport report = meter.Finish();
  EXPECT_EQ(report.samples, status.samples_counted - begun);
  EXPECT_EQ(report.node_s, 24);
  const run::NodeTimes& times = report.node_times;
  EXPECT_NEAR(times.computing_s, 8 + 5, 1e-9);
  EXPECT_NEAR(times.slower_s, 2, 1e-9);
  EXPECT_NEAR(times.waiting_s, 5, 1e-9);
  EXPECT_NEAR(times.starting_s, 2, 1e-9) << "one of the two machines that came";
  EXPECT_NEAR(times.unused_s, 2, 1e-9);
  EXPECT_EQ(report.samples_ideal, 2400) << "100 a second of each";
  const std::string text = RenderReplay(report);
  EXPECT_THAT(text, HasSubstr("83.3 % of a fleet that loses nothing"));
  EXPECT_THAT(text, HasSubstr("13.0 node-seconds (54.2 %)\n"));
  EXPECT_THAT(text, HasSubstr("2.0 node-seconds (8.3 %) computing for longer than step_ms"));
  EXPECT_THAT(text, HasSubstr("met: loss 0.5000 after 35.5 s\n"));
  EXPECT_THAT(text, HasSubstr("10.0 s for 10m 00s"));
  EXPECT_THAT(JsonOfReplay(report), HasSubstr("\"waiting_node_s\": 5"));
}

TEST(ReplayMeterTest, APlotNamesItsTraceAndJobAndBeginsWithTheFirstLoss) {
  ReplayReport begun;
  begun.trace = "traces/p<3>.csv";
  begun.job = "jobs/cnn.json";
  begun.speedup = 60;
  begun.step_s = {{"spot", 0.5}};
  ReplayMeter meter(begun);
  proto::JobStatus status = run::MakeStatus();
  status.steps_counted = 0;
  status.train_loss = 0;
  status.samples_per_s = 7;  // of the last seconds, in which nothing changed
  for (int tenth = 0; tenth <= 100; ++tenth) {
    meter.Look(tenth * 0.1, 2, status);
    status.samples_counted += tenth < 50 ? 10 : 20;
    if (tenth == 20) {
      status.steps_counted = 1;
      status.train_loss = 2;
    }
  }
  const ReplayReport report = meter.Finish();
  EXPECT_TRUE(std::isnan(report.points[20].loss)) << "nobody knows it yet";
  EXPECT_EQ(report.points[21].loss, 2);
  EXPECT_TRUE(std::isnan(report.points[5].samples_per_s));
  EXPECT_NEAR(report.points[45].samples_per_s, 100, 1e-6);
  EXPECT_NEAR(report.points[65].samples_per_s, 200, 1e-6) << "of the second before";
  const std::string plot = PlotReplay(report);
  EXPECT_THAT(plot, HasSubstr(">A replay of p&lt;3&gt; with cnn, 60 times as fast</text>"));
  EXPECT_THAT(plot, HasSubstr("training loss"));
  EXPECT_THAT(PlotReplay(ReplayReport()), HasSubstr("</svg>"));
  ReplayMeter none{ReplayReport()};
  status.steps_counted = 0;
  none.Look(0, 2, status);
  EXPECT_THAT(RenderReplay(none.Finish()), HasSubstr("- (no step was made)"));
  EXPECT_THAT(JsonOfReplay(none.Finish()), Not(HasSubstr("\"loss\"")));
}

/// A run whose loss is 1 in its 11th second and falls by 1/8 a second, for 0.02 USD a second.
ReplayReport AfterSeconds(int seconds, const ReplayGoal& goal) {
  ReplayReport begun;
  begun.goal = goal;
  ReplayMeter meter(begun);
  proto::JobStatus status = run::MakeStatus();
  status.steps_counted = 0;
  status.train_loss = 0;
  for (int second = 0; second <= seconds; ++second) {
    status.elapsed_s = 10 + second;
    status.usd_spent = 0.02 * status.elapsed_s;
    meter.Look(second, 2, status);
    status.steps_counted += 10;
    status.train_loss = 1 - 0.125 * second;
  }
  return meter.Finish();
}

std::string GoalIn(const ReplayReport& report) {
  const std::string json = JsonOfReplay(report);
  const size_t begin = json.find("\"goal\"");
  return begin == std::string::npos ? "" : json.substr(begin, json.find('}', begin) - begin);
}

TEST(ReplayMeterTest, AGoalIsMetOrMissedInLossTimeAndCost) {
  const auto goal_of = [](int seconds, const ReplayGoal& goal) {
    const std::string text = RenderReplay(AfterSeconds(seconds, goal));
    const size_t begin = text.find("goal ");
    return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(goal_of(3, {}), "");
  EXPECT_THAT(
      goal_of(3, {0.45, 0, 0}), HasSubstr(" not met: loss 0.4500 missed by 0.3000 in 13.0 s"));
  EXPECT_THAT(
      goal_of(9, {0.45, 16, 1}),
      HasSubstr(" met: loss 0.4500 after 16.0 s of at most 16.0 s, for 0.32 of at most 1.00 USD"))
      << "what was trained and spent after it is not counted";
  EXPECT_THAT(
      goal_of(9, {0.45, 12, 0.25}),
      HasSubstr(" not met: loss 0.4500 after 16.0 s of at most 12.0 s, missed by 4.00 s, for 0.32 "
                "of at most 0.25 USD, missed by 0.070"));
  EXPECT_THAT(goal_of(0, {0.45, 0, 0}), HasSubstr(" not met: loss 0.4500 with no step in 10.0 s"));
  EXPECT_EQ(GoalIn(AfterSeconds(3, {})), "");
  const std::string met = GoalIn(AfterSeconds(9, {0.45, 16, 1}));
  EXPECT_THAT(met, HasSubstr("\"is_met\": true"));
  EXPECT_THAT(met, HasSubstr("\"seconds_missed_by\": 0,"));
  const std::string missed = GoalIn(AfterSeconds(3, {0.5, 12, 0.01}));
  EXPECT_THAT(missed, HasSubstr("\"is_met\": false"));
  EXPECT_THAT(missed, HasSubstr("\"loss_missed_by\": 0.25,"));
  EXPECT_THAT(missed, HasSubstr("\"seconds_missed_by\": 1,"));
  EXPECT_THAT(missed, HasSubstr("\"usd_missed_by\": 0.25"));
}

TEST(ReplayMeterTest, TheGoalIsTheJobsOrTheLossAtWhichItEnds) {
  proto::JobConfig config;
  EXPECT_EQ(ReplayGoalOf(config).loss, 0);
  config.run.stop_at_loss = 0.5;
  EXPECT_EQ(ReplayGoalOf(config).loss, 0.5);
  config.goal.loss = 0.25;
  config.goal.within_s = 60;
  config.goal.budget_usd = 2;
  EXPECT_EQ(ReplayGoalOf(config).loss, 0.25);
  EXPECT_EQ(ReplayGoalOf(config).within_s, 60);
  EXPECT_EQ(ReplayGoalOf(config).budget_usd, 2);
}

TEST(ReplayReportTest, APolicysDecisionsAreListedWithTheTimeOfTheTrace) {
  ReplayReport report;
  report.speedup = 60;
  EXPECT_THAT(RenderReplay(report), Not(HasSubstr("policy")));
  report.policy = "hold";
  ReplayMeter meter(report);
  for (int i = 0; i < 25; ++i) {
    meter.NoteDecision(
        {.at_s = i * 1.0, .has_change = i % 2 == 0, .why = "wants " + std::to_string(i)});
  }
  const std::string text = RenderReplay(meter.Finish());
  EXPECT_THAT(text, HasSubstr("hold, 25 decisions, 13 changes"));
  EXPECT_THAT(text, HasSubstr("... and 5 decisions before"));
  EXPECT_THAT(text, HasSubstr("24m 00s  wants 24\n"));
  EXPECT_THAT(text, Not(HasSubstr("wants 4\n")));
}

TEST(ReplayReportTest, FleetsStandBesideThoseOfTheSimulation) {
  const std::vector<ReplayFleet> wanted = {
      {0, {3}}, {61, {4}}, {70, {5}}, {118, {5}}, {125, {4}}, {179.9, {5}}, {240, {2}}};
  const std::vector<ReplayFleet> by_minute = {{0, {3}}, {60, {5}}, {240, {2}}};
  EXPECT_EQ(FleetsByInterval(wanted, 60), by_minute);
  ReplayReport report;
  report.speedup = 60;
  report.policy = "hold";
  report.samples = 990;
  report.fleets = by_minute;
  report.simulation_trouble = "no step_ms";
  EXPECT_THAT(RenderReplay(report), HasSubstr("not: no step_ms"));
  report.simulation = ReplaySimulation{1000, by_minute};
  EXPECT_THAT(
      RenderReplay(report),
      HasSubstr("1,000 samples, of which the replay made 1.0 % less; the same fleets in the same "
                "intervals"));
  EXPECT_THAT(RenderReplay(report), HasSubstr("1m 00s  5 spot               5 spot\n"));
  report.simulation->fleets[1].at_s = 120;
  EXPECT_THAT(RenderReplay(report), HasSubstr("fleets differ"));
  EXPECT_THAT(RenderReplay(report), HasSubstr("1m 00s  5 spot               3 spot  differs\n"));
  EXPECT_THAT(JsonOfReplay(report), HasSubstr("\"simulated\""));
}

}  // namespace
}  // namespace ps::psctl
