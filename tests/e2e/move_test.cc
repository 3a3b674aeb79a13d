// Chunks that people move by hand, and the share of a job that is tuned by whole runs of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ps/proto/job/job_config.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::HasSubstr;

class MoveByHandTest : public E2eTest {
 protected:
  Output Psctl(std::vector<std::string> arguments) {
    Process::Options options;
    options.program = "psctl";
    options.arguments = std::move(arguments);
    options.output_stem = job_.folder() + "/command" + std::to_string(commands_++);
    return RunToEnd(options, kRunPatience);
  }

  int commands_ = 0;
};

TEST_F(MoveByHandTest, ATensorAndAChunkGoToAServerWhileTrainingGoesOn) {
  job_.SetData(4000, 1000)
      .SetEndless()
      .Set("servers", R"({"count": 2, "chunk_kib": 16})")
      .Set("workers", R"([{"count": 2, "step_ms": 10}])");
  TrainRun run(job_);
  const auto begun = run.WaitFor([](const proto::JobStatus& s) { return s.samples_counted > 0; });
  ASSERT_TRUE(begun.has_value());
  const Output wrong = Psctl({"move", "no.such.tensor", "1", run.Root()});
  EXPECT_EQ(wrong.end, ProcessEnd{1});
  EXPECT_THAT(wrong.err, HasSubstr("the model has no tensor 'no.such.tensor'; it has "));
  const std::string names = wrong.err.substr(wrong.err.find("it has ") + 7);
  const std::string tensor = names.substr(0, names.find_first_of(",\n"));
  const Output whole = Psctl({"move", tensor, "1", run.Root(), "--wait"});
  EXPECT_EQ(whole.end, ProcessEnd{}) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("the chunks are where they are to be"));
  const auto moved = run.Status();
  ASSERT_TRUE(moved.has_value());
  EXPECT_EQ(moved->servers.pinned, (std::vector<proto::PinnedPart>{{tensor, -1, 1}}));
  // Some others make room for it.
  EXPECT_GE(moved->servers.moves, 1U);
  const uint64_t chunks = moved->servers.chunks_pinned;
  ASSERT_GE(chunks, 2U);
  EXPECT_EQ(Psctl({"move", tensor + ":1", "0", run.Root(), "--wait"}).end, ProcessEnd{});
  const Output text = Psctl({"status", run.Root()});
  EXPECT_THAT(text.out, HasSubstr(tensor + ":0 on server 1, " + tensor + ":1 on server 0"));
  std::string json = Psctl({"status", run.Root(), "--json"}).out;
  std::erase_if(json, [](char c) { return c == ' ' || c == '\n'; });
  EXPECT_THAT(
      json, HasSubstr("\"pinned\":[{\"tensor\":\"" + tensor + "\",\"chunk\":0,\"server\":1}"));
  const Output missing = Psctl({"move", tensor + ":99", "0", run.Root()});
  EXPECT_EQ(missing.end, ProcessEnd{1});
  EXPECT_THAT(missing.err, HasSubstr("has the chunks 0 to " + std::to_string(chunks - 1)));
  EXPECT_EQ(Psctl({"stop", run.Root()}).end, ProcessEnd{});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectNothingLeft();
  const Json summary = run.Summary();
  ExpectConsistentLedger(summary);
  EXPECT_EQ(summary["steps_lost"].number(), 0);
  EXPECT_EQ(summary["joins"].number(), 2) << "nobody leaves for it";
}

TEST_F(MoveByHandTest, TheShareOfRoundsIsFoundByRunsOfTheJob) {
  job_.SetData(2000, 500)
      .Set("train", R"({"epochs": 1, "minibatch": 32})")
      .Set("servers", R"({"count": 1})")
      .Set("workers", R"([{"count": 2}])")
      .Write();
  const std::string output = job_.folder() + "/tuned.json";
  const Output tuned =
      Psctl({"tune", job_.path(), "--tries", "1", "--tolerance", "100", "-o", output});
  EXPECT_EQ(tuned.end, ProcessEnd{}) << tuned.err;
  EXPECT_THAT(tuned.err, HasSubstr("2/2  50 % in bsp"));
  EXPECT_THAT(tuned.out, HasSubstr("50 % in bsp is as accurate as bsp alone, within 100 points"));
  EXPECT_THAT(tuned.out, HasSubstr("\"mode_policy\": \"sync_switch\", \"switch_at\": 0.5"));
  const Result<proto::JobConfig> config = proto::LoadJobConfig(output);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->train.mode, proto::Mode::kBsp);
  EXPECT_EQ(config->train.switch_at, 0.5F);
}

}  // namespace
}  // namespace ps::e2e
