// A job from its file to its summary, in every mode, undisturbed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/base/temporary_folder.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::HasSubstr;

void ExpectPlainText(const std::string& text) {
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    ASSERT_TRUE(c == '\n' || (code >= 32 && code != 127)) << "byte " << int{code} << " in " << text;
  }
}

class ModeTest : public E2eTest, public testing::WithParamInterface<std::string> {};

TEST_P(ModeTest, ATinyRunLearnsAndCountsEverySampleOnce) {
  job_.Set("train", R"({"epochs": 4, "minibatch": 32, "mode": ")" + GetParam() + R"("})");
  TrainRun run(job_, {.arguments = {"--json"}});
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  const Json summary = run.Summary();
  EXPECT_EQ(summary["state"].text(), "done");
  EXPECT_EQ(summary["name"].text(), job_.name());
  // Chance is 0.1; about 0.75 is usual.
  EXPECT_GT(summary["test_accuracy"].number(), 0.6);
  const Json& evaluations = summary["evaluations"];
  ASSERT_GE(evaluations.size(), 1U);
  EXPECT_EQ(evaluations[evaluations.size() - 1]["epoch"].number(), 4);
  if (GetParam() == "bsp") {  // in the others epochs may end together, where a worker was stopped
    EXPECT_EQ(evaluations.size(), 4U);
  }
  run.ExpectExactLedger();
  EXPECT_EQ(summary["samples_counted"].number(), 4 * 4096);
  EXPECT_EQ(summary["samples_rejected"].number(), 0);
  EXPECT_EQ(summary["steps_lost"].number(), 0);
  EXPECT_EQ(summary["steps_partial"].number(), 0);
  EXPECT_EQ(summary["revocations_noticed"].number(), 0);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 0);
  EXPECT_EQ(summary["joins"].number(), 3);
  ASSERT_EQ(summary["workers"].size(), 3U);
  double steps = 0;
  double bytes = 0;
  for (size_t i = 0; i < summary["workers"].size(); ++i) {
    steps += summary["workers"][i]["steps"].number();
    bytes += summary["workers"][i]["bytes_pushed"].number();
  }
  EXPECT_EQ(steps, summary["steps_counted"].number()) << "of all workers, to their last";
  EXPECT_GE(bytes, steps * 4 * 235'146);
  EXPECT_EQ(bytes, summary["bytes_pushed"].number());
  run.ExpectNothingLeft();
}

TEST_P(ModeTest, OutputIsForProgramsAndLogs) {
  job_.Set("train", R"({"minibatch": 64, "mode": ")" + GetParam() + R"("})");
  TrainRun run(job_, {.arguments = {"--json"}});
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_EQ(run.psctl().Out(), ReadText(run.Root() + "/summary.json"));
  EXPECT_TRUE(Json::Parse(run.psctl().Out()).has_value());
  ExpectPlainText(run.psctl().Err());
  EXPECT_THAT(run.psctl().Err(), HasSubstr(run.Root()));
  EXPECT_THAT(run.psctl().Err(), HasSubstr("test accuracy"));
  ExpectPlainText(ReadText(run.Root() + "/summary.txt"));
  std::istringstream metrics(ReadText(run.Root() + "/metrics.jsonl"));
  int lines = 0;
  for (std::string line; std::getline(metrics, line); ++lines) {
    EXPECT_TRUE(Json::Parse(line).has_value()) << line;
  }
  EXPECT_GT(lines, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, ModeTest, testing::Values("async", "ssp", "bsp"), [](const auto& suite) {
      return suite.param;
    });

class PaceTest : public E2eTest {};

TEST_F(PaceTest, ASlowedWorkerDoesLessOfTheJob) {
  job_.Set("train", R"({"epochs": 4, "minibatch": 32, "lease_steps": 1})")
      .Set("workers", R"([{"count": 1}, {"count": 1, "slowdown": 20}])");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  const Json summary = run.Summary();
  ASSERT_EQ(summary["workers"].size(), 2U);
  EXPECT_EQ(summary["workers"][0]["slowdown"].number(), 1);
  EXPECT_EQ(summary["workers"][1]["slowdown"].number(), 20);
  EXPECT_GT(
      summary["workers"][0]["samples_counted"].number(),
      3 * summary["workers"][1]["samples_counted"].number());
}

class FormatTest : public E2eTest {};

TEST_F(FormatTest, AGptLearnsTheBytesOfAText) {
  std::string text;
  while (text.size() < 20'000) {
    text += "In the beginning was the word. ";
  }
  WriteText(folder_.path() + "/text.txt", text);
  job_.Set("model", R"({"name": "gpt", "depth": 1, "heads": 2, "width": 16})")
      .Set(
          "data",
          R"({"format": "text", "directory": ")" + folder_.path() +
              R"(", "context": 16, "test_share": 0.1})")
      .Set("optimizer", R"({"kind": "adam", "lr": 0.01})")
      .Set("train", R"({"epochs": 2, "minibatch": 16})");
  TrainRun run(job_, {.arguments = {"--json"}});
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{}) << run.psctl().Err();
  run.ExpectExactLedger();
  const Json summary = run.Summary();
  EXPECT_LT(summary["test_loss"].number(), 4) << "chance is 5.5";
}

TEST_F(FormatTest, RoundedGradientsTrainAsWellInHalfTheBytes) {
  const std::string train = R"({"epochs": 2, "minibatch": 64, "mode": "bsp")";
  job_.Set("train", train + "}").Set("workers", R"([{"count": 2}])");
  TrainRun exact(job_);
  ASSERT_EQ(exact.WaitForEnd(), ProcessEnd{}) << exact.psctl().Err();
  const TemporaryFolder other;
  Job next = job_.CopyIn(other.path());
  next.Set("train", train + R"(, "gradient_dtype": "bf16"})");
  TrainRun rounded(next);
  ASSERT_EQ(rounded.WaitForEnd(), ProcessEnd{}) << rounded.psctl().Err();
  rounded.ExpectExactLedger();
  const Json before = exact.Summary();
  const Json after = rounded.Summary();
  EXPECT_GT(after["test_accuracy"].number(), 0.6);
  EXPECT_NEAR(after["test_accuracy"].number(), before["test_accuracy"].number(), 0.05);
  // A push that is repeated on a busy machine counts again.
  EXPECT_NEAR(after["bytes_pushed"].number() / before["bytes_pushed"].number(), 0.5, 0.05);
}

TEST_F(FormatTest, GradientsInFewerBitsTrainAsWell) {
  const std::string train = R"({"epochs": 2, "minibatch": 64, "mode": "bsp"})";
  job_.Set("train", train).Set("workers", R"([{"count": 2}])");
  TrainRun exact(job_);
  ASSERT_EQ(exact.WaitForEnd(), ProcessEnd{}) << exact.psctl().Err();
  const TemporaryFolder other;
  Job next = job_.CopyIn(other.path());
  next.Set("exchange", R"({"push": "int4", "pull": "bf16"})");
  TrainRun encoded(next);
  ASSERT_EQ(encoded.WaitForEnd(), ProcessEnd{}) << encoded.psctl().Err();
  encoded.ExpectExactLedger();
  const Json before = exact.Summary();
  const Json after = encoded.Summary();
  EXPECT_GT(after["test_accuracy"].number(), 0.6);
  EXPECT_NEAR(after["test_accuracy"].number(), before["test_accuracy"].number(), 0.05);
  EXPECT_NEAR(after["bytes_pushed"].number() / before["bytes_pushed"].number(), 0.133, 0.03);
  // Evaluations pull the model as f32.
  EXPECT_LT(after["bytes_pulled"].number(), 0.7 * before["bytes_pulled"].number());
}

class OutcomeTest : public E2eTest {
 protected:
  static int CountIn(const std::string& text) {
    int count = 0;
    for (size_t at = 0; (at = text.find(": done after ", at)) != std::string::npos; ++at) {
      ++count;
    }
    return count;
  }
};

TEST_F(OutcomeTest, IsSaidOnStdoutAndOnStderr) {
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_EQ(CountIn(run.psctl().Out()), 1);
  EXPECT_EQ(CountIn(run.psctl().Err()), 1);
}

TEST_F(OutcomeTest, IsSaidOnceWhereTheyAreOne) {
  job_.Write();
  const Output output = RunToEnd(
      {.program = "/bin/sh",
       .arguments = {"-c", R"(exec "$0" train "$1" 2>&1)", ProgramPath("psctl"), job_.path()},
       .directory = job_.folder(),
       .output_stem = job_.folder() + "/joined"},
      kRunPatience);
  ASSERT_EQ(output.end, ProcessEnd{}) << output.out;
  EXPECT_EQ(CountIn(output.out), 1) << output.out;
}

class RerunTest : public E2eTest {};

TEST_F(RerunTest, TheConfigAsResolvedRepeatsTheRun) {
  // One worker in bsp is plain SGD, so the second run must give the very same numbers.
  job_.Set("workers", R"([{"count": 1}])").Set("train", R"({"mode": "bsp"})");
  std::string first;
  {
    TrainRun run(job_);
    ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
    first = run.Root();
  }
  const Output again = RunToEnd(
      {.program = "psctl",
       .arguments = {"train", first + "/job.json", "--json"},
       .directory = folder_.path(),
       .output_stem = folder_ / "again"},
      kRunPatience);
  ASSERT_EQ(again.end, ProcessEnd{}) << again.err;
  const std::optional<Json> one = Json::Parse(ReadText(first + "/summary.json"));
  const std::optional<Json> two = Json::Parse(again.out);
  ASSERT_TRUE(one.has_value() && two.has_value());
  EXPECT_EQ((*one)["test_accuracy"].number(), (*two)["test_accuracy"].number());
  EXPECT_EQ((*one)["test_loss"].number(), (*two)["test_loss"].number());
}

class NumbersTest : public E2eTest {};

TEST_F(NumbersTest, GradientsThatAreNotFiniteAreLeftOutCountedAndReported) {
  // With this learning rate the loss is infinite or no number after a few steps.
  job_.Set("optimizer", R"({"kind": "sgd", "lr": 1000})");
  TrainRun run(job_, {.arguments = {"--json", "--set", "train.on_divergence=continue"}});
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  const Json summary = run.Summary();
  EXPECT_EQ(summary["state"].text(), "done");
  EXPECT_GT(summary["samples_rejected"].number(), 0);
  run.ExpectExactLedger();
  EXPECT_THAT(run.psctl().Err(), HasSubstr("gave a gradient that is not finite and were left out"));
  run.ExpectNothingLeft();
}

TEST_F(NumbersTest, GradientsThatAreNotFiniteDoNotStopBsp) {
  job_.Set("optimizer", R"({"kind": "sgd", "lr": 1000})")
      .Set("train", R"({"minibatch": 64, "mode": "bsp", "on_divergence": "continue"})");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_GT(run.Summary()["samples_rejected"].number(), 0);
  run.ExpectExactLedger();
}

}  // namespace
}  // namespace ps::e2e
