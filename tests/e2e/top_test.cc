// psctl top on terminals, while the fleet changes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/e2e/support/terminal.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

class TopTest : public E2eTest {
 protected:
  /// Until both have shown it; the last screens are in the test's output when one has not.
  static void ExpectShown(
      std::array<TerminalProcess, 2>* terminals, const std::vector<std::string>& wanted) {
    std::array<std::string, 2> screens;
    std::array<bool, 2> is_shown{};
    const auto have_shown = [&] {
      for (size_t i = 0; i < screens.size(); ++i) {
        screens[i].clear();
        for (const std::string& line : (*terminals)[i].Look()) {
          screens[i] += line + "\n";
        }
        is_shown[i] = is_shown[i] || std::ranges::all_of(wanted, [&](const std::string& text) {
                        return Contains(screens[i], text);
                      });
      }
      return is_shown[0] && is_shown[1];
    };
    EXPECT_TRUE(WaitUntil(have_shown)) << testing::PrintToString(wanted) << " in\n"
                                       << screens[0] << screens[1];
  }

  /// What programs read instead of top's screen.
  static void ExpectInJson(const std::string& text, const std::string& event) {
    const auto status = Json::Parse(text);
    ASSERT_TRUE(status.has_value()) << text;
    EXPECT_GT((*status)["usd_spent"].number(), 0);
    double received = 0;
    const Json& shards = (*status)["shards"];
    for (size_t i = 0; i < shards.size(); ++i) {
      received += shards[i]["received_bytes_per_s"].number();
    }
    EXPECT_GT(received, 0) << text;
    const Json& events = (*status)["events"];
    bool has_event = false;
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_GT(events[i]["unix_s"].number(), 0);
      has_event |= Contains(events[i]["kind"].text() + "  " + events[i]["text"].text(), event);
    }
    EXPECT_TRUE(has_event) << event << " in " << text;
  }
};

TEST_F(TopTest, EachFrameFitsItsTerminalAndLeavesNothingOfTheOneBefore) {
  job_.SetData(60000, 1000)  // no epoch's end takes the place of other events
      .SetEndless()
      // No spike of the loss either: the small terminal shows three events.
      .Set("optimizer", R"({"kind": "sgd", "lr": 0.0005})")
      .Set("workers", R"([{"count": 3, "type": "spot", "step_ms": 100, "usd_per_hour": 1}])")
      .Set("fleet", R"({"max_detect_s": 2, "park_servers_after_s": 0.5})");
  TrainRun run(job_, {.is_replacing = true});
  ASSERT_TRUE(run.WaitForSamples(1).has_value());
  std::array<TerminalProcess, 2> terminals{
      TerminalProcess("psctl", {"top", run.Root()}, 80, 24),
      TerminalProcess("psctl", {"top", run.Root()}, 120, 40)};
  ExpectShown(&terminals, {job_.name() + "   training", "workers 3/3", "samples/s", " q quits"});

  EXPECT_EQ(Psctl({"scale", run.Root(), "workers=8,servers=3", "--wait"}).end, ProcessEnd{});
  ExpectShown(&terminals, {"workers 8/8", "     7  "});

  const auto status = run.Status();
  ASSERT_TRUE(status.has_value() && !Alive(*status).empty());
  const proto::WorkerRow victim = Alive(*status).front();
  ASSERT_EQ(::kill(static_cast<pid_t>(victim.pid), SIGKILL), 0);
  const std::string name = "worker " + std::to_string(victim.worker.value);
  ExpectShown(&terminals, {"revocation  " + name + " lost"});
  const Output json = Psctl({"status", run.Root(), "--json"});
  EXPECT_EQ(json.end, ProcessEnd{}) << json.err;
  ExpectInJson(json.out, "revocation  " + name + " lost");

  EXPECT_EQ(Psctl({"scale", run.Root(), "workers=0"}).end, ProcessEnd{});
  ExpectShown(&terminals, {job_.name() + "   waiting", "no workers", "parked", " servers end, "});

  for (TerminalProcess& terminal : terminals) {
    terminal.Type("q");
    EXPECT_EQ(terminal.WaitForEnd(), 0);
  }
  EXPECT_EQ(Psctl({"stop", run.Root()}).end, ProcessEnd{});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
}

TEST_F(TopTest, CtrlBackslashEndsItAndTheTerminalIsAsItWas) {
  job_.SetEndless().Set("workers", R"([{"count": 1, "step_ms": 100}])");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(1).has_value());
  TerminalProcess terminal("psctl", {"top", run.Root()}, 80, 24);
  ASSERT_TRUE(WaitUntil([&] { return !terminal.Look().empty(); }));
  EXPECT_FALSE(terminal.IsForShell());
  terminal.Type("\x1c");
  EXPECT_EQ(terminal.WaitForEnd(), 128 + SIGQUIT);
  EXPECT_TRUE(terminal.IsForShell());
  EXPECT_THAT(terminal.rest(), ::testing::HasSubstr("\x1b[?25h\x1b[?1049l"))
      << "the cursor, and the screen that was there before";
  StopCleanly(&run);
}

TEST_F(TopTest, StatesHaveColoursUnlessNoColorIsSetAndTheSummaryFollowsTheRun) {
  job_.SetEndless().Set("workers", R"([{"count": 1, "step_ms": 100}])");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(1).has_value());
  const char* const own = std::getenv("TERM");
  const std::string before = own == nullptr ? "dumb" : own;
  ::setenv("TERM", "xterm", 1);
  TerminalProcess coloured("psctl", {"top", run.Root()}, 80, 24);
  ::setenv("NO_COLOR", "1", 1);
  TerminalProcess plain("psctl", {"top", run.Root()}, 80, 24);
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", before.c_str(), 1);
  EXPECT_TRUE(WaitUntil([&] {
    coloured.Look();
    return coloured.has_colours() && !plain.Look().empty();
  }));
  EXPECT_EQ(Psctl({"stop", run.Root()}).end, ProcessEnd{});
  for (TerminalProcess* const terminal : {&coloured, &plain}) {
    EXPECT_EQ(terminal->WaitForEnd(), 0);
    const std::string& rest = terminal->rest();
    const size_t restored = rest.find("\x1b[?1049l");
    ASSERT_NE(restored, std::string::npos) << rest;
    EXPECT_NE(rest.find("run directory", restored), std::string::npos) << rest;
  }
  EXPECT_FALSE(plain.has_colours());
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
}

}  // namespace
}  // namespace ps::e2e
