#include "worker/script/spotps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/base/temporary_folder.h"
#include "worker/script/description.h"
#include "worker/script/script_start.h"

namespace ps::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StrEq;

/// A worker that is asked to describe itself, without a job.
class SpotpsTest : public testing::Test {
 protected:
  ~SpotpsTest() override {
    spotps_close(worker_);
    ::unsetenv(kDescribeVariable);
    ::unsetenv(kWorkerVariable);
  }

  void Open() {
    ::setenv(kDescribeVariable, path_.c_str(), 1);
    ASSERT_EQ(spotps_open(SPOTPS_ABI, &worker_), SPOTPS_OK) << spotps_error(nullptr);
  }

  int32_t Declare(const char* name, int64_t size, int32_t rule = SPOTPS_GRADIENT, float rate = 0) {
    return spotps_declare(worker_, name, &size, 1, rule, rate, 1, values_);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "described.safetensors";
  spotps_worker* worker_ = nullptr;
  float values_[4] = {1, 2, 3, 4};
  spotps_task task_{};
};

TEST_F(SpotpsTest, WithoutAJobInTheEnvironmentThereIsNoWorker) {
  EXPECT_EQ(spotps_open(SPOTPS_ABI, &worker_), SPOTPS_NO_JOB);
  EXPECT_EQ(worker_, nullptr);
  EXPECT_THAT(spotps_error(nullptr), StrEq(""));
}

TEST_F(SpotpsTest, AProgramOfAnotherVersionIsRefused) {
  EXPECT_EQ(spotps_open(SPOTPS_ABI + 1, &worker_), SPOTPS_ERROR);
  EXPECT_EQ(worker_, nullptr);
  EXPECT_THAT(
      spotps_error(nullptr),
      HasSubstr("was made for version 5 of libspotps, and this one takes 2 to"));
  EXPECT_EQ(spotps_open(SPOTPS_ABI_LEAST - 1, &worker_), SPOTPS_ERROR);
  EXPECT_EQ(spotps_open(SPOTPS_ABI_LEAST, &worker_), SPOTPS_NO_JOB) << "nothing of it has changed";
}

TEST_F(SpotpsTest, ATensorMayHaveSeveralNamesWhateverBecomesOfIt) {
  Open();
  const int64_t size = 2;
  const uint8_t mask[2] = {1, 0};
  ASSERT_EQ(Declare("a", 4), SPOTPS_OK);
  ASSERT_EQ(spotps_frozen(worker_, "base", &size, 1, values_), SPOTPS_OK);
  ASSERT_EQ(spotps_kept(worker_, "mask", SPOTPS_BOOL, &size, 1, 0, 1, mask), SPOTPS_OK);
  ASSERT_EQ(spotps_alias(worker_, "a2", "a"), SPOTPS_OK) << spotps_error(worker_);
  ASSERT_EQ(spotps_alias(worker_, "base2", "base"), SPOTPS_OK) << spotps_error(worker_);
  ASSERT_EQ(spotps_alias(worker_, "mask2", "mask"), SPOTPS_OK) << spotps_error(worker_);
  for (const char* const name : {"a", "base", "mask", "a2", "base2"}) {
    EXPECT_EQ(spotps_alias(worker_, name, "a"), SPOTPS_ERROR) << name;
    EXPECT_THAT(spotps_error(worker_), HasSubstr("it is declared twice"));
  }
  EXPECT_EQ(spotps_alias(worker_, "b", "nobody"), SPOTPS_ERROR);
  EXPECT_THAT(spotps_error(worker_), HasSubstr("tensor b: nobody isn't declared"));
  EXPECT_EQ(spotps_kept(worker_, "b", 13, &size, 1, 0, 0, mask), SPOTPS_ERROR);
  EXPECT_THAT(spotps_error(worker_), HasSubstr("tensor b: unknown type"));
  EXPECT_EQ(spotps_next(worker_, 0, &task_), SPOTPS_DESCRIBED) << spotps_error(worker_);
  const Result<Description> described = ReadDescription(path_);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_THAT(described->aliases, ElementsAre(testing::Pair("a2", "a")));
  EXPECT_EQ(described->frozen.size(), 1U);
  EXPECT_EQ(described->kept.size(), 3U);
}

TEST_F(SpotpsTest, AnEnvironmentThatIsNoneIsRefusedBeforeAnythingConnects) {
  const struct {
    const char* flags;
    const char* why;
  } cases[] = {
      {"", "SPOTPS_WORKER is no JSON"},
      {"[]", "is no list, or an empty one"},
      {"[3]", "has an entry that is no word"},
      {R"(["--coordinater=a:1"])", "unknown flag --coordinater; did you mean --coordinator?"},
      {R"(["--seat=3"])", "--coordinator"},
      {R"(["--coordinator=127.0.0.1:1", "--token-file=/nowhere"])", "/nowhere"},
  };

  for (const auto& [flags, why] : cases) {
    ::setenv(kWorkerVariable, flags, 1);
    EXPECT_EQ(spotps_open(SPOTPS_ABI, &worker_), SPOTPS_ERROR) << flags;
    EXPECT_THAT(spotps_error(nullptr), HasSubstr(why));
  }
}

TEST_F(SpotpsTest, WhatItDeclaresIsWhatItDescribes) {
  Open();
  ASSERT_EQ(Declare("b", 4), SPOTPS_OK);
  ASSERT_EQ(Declare("a", 2, SPOTPS_AVERAGE, 0.5F), SPOTPS_OK);
  ASSERT_EQ(spotps_samples(worker_, 50, 5), SPOTPS_OK);
  ASSERT_EQ(spotps_optimizer(worker_, R"({"kind":"adam"})"), SPOTPS_OK);
  ASSERT_EQ(spotps_local_steps(worker_, 3), SPOTPS_OK);
  ASSERT_EQ(spotps_minibatch(worker_, 32), SPOTPS_OK);
  EXPECT_EQ(spotps_next(worker_, 0, &task_), SPOTPS_DESCRIBED) << spotps_error(worker_);
  const Result<Description> described = ReadDescription(path_);
  ASSERT_TRUE(described.ok()) << described.status();
  ASSERT_EQ(described->tensors.size(), 2U);
  EXPECT_EQ(described->tensors[0].name, "b");
  EXPECT_TRUE(described->tensors[0].has_weight_decay);
  EXPECT_THAT(described->tensors[1].shape, ElementsAre(2));
  EXPECT_EQ(described->tensors[1].average_rate, 0.5F);
  EXPECT_EQ(described->train_samples, 50U);
  EXPECT_EQ(described->test_samples, 5U);
  EXPECT_EQ(described->local_steps, 3U);
  EXPECT_EQ(described->minibatch, 32U);
  EXPECT_EQ(described->optimizer_json, R"({"kind":"adam"})");
}

TEST_F(SpotpsTest, TensorsThatNoServerCouldHaveAreRefusedByName) {
  Open();
  ASSERT_EQ(Declare("a", 4), SPOTPS_OK);
  const auto error = [this](int32_t result) {
    EXPECT_EQ(result, SPOTPS_ERROR);
    return std::string(spotps_error(worker_));
  };
  EXPECT_THAT(error(Declare("a", 4)), HasSubstr("tensor a: it is declared twice"));
  EXPECT_THAT(error(Declare("", 4)), HasSubstr("its name is empty or too long"));
  EXPECT_THAT(error(Declare("b", 0)), HasSubstr("tensor b: it has no elements"));
  EXPECT_THAT(error(Declare("b", -3)), HasSubstr("it has no elements"));
  EXPECT_THAT(error(Declare("b", INT64_MAX)), HasSubstr("or too many"));
  EXPECT_THAT(error(Declare("b", 4, 7)), HasSubstr("unknown rule"));
  EXPECT_THAT(error(Declare("b", 4, SPOTPS_AVERAGE, 0)), HasSubstr("rate doesn't fit its rule"));
  EXPECT_THAT(error(Declare("b", 4, SPOTPS_GRADIENT, 0.5F)), HasSubstr("rate doesn't fit"));
  const int64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_THAT(
      error(spotps_declare(worker_, "b", many, 9, SPOTPS_GRADIENT, 0, 0, values_)),
      HasSubstr("too many dimensions"));
}

TEST_F(SpotpsTest, CallsOutOfTurnAreErrorsAndNothingElse) {
  Open();
  EXPECT_EQ(spotps_next(worker_, 0, &task_), SPOTPS_ERROR);
  EXPECT_THAT(spotps_error(worker_), HasSubstr("no tensor is declared"));
  EXPECT_EQ(spotps_values(worker_, 0), nullptr);
  EXPECT_EQ(spotps_gradient(worker_, 0), nullptr);
  EXPECT_EQ(spotps_finish(worker_, 0, 0, 0), SPOTPS_ERROR);
  EXPECT_EQ(spotps_ready(worker_, 0), SPOTPS_ERROR);
  EXPECT_EQ(spotps_local_step(worker_, 1), SPOTPS_ERROR);
  uint64_t order = 0;
  EXPECT_EQ(spotps_order(worker_, 0, 0, 1, &order), SPOTPS_ERROR);
  EXPECT_THAT(spotps_error(worker_), HasSubstr("no such task in hand"));
  EXPECT_EQ(spotps_job(worker_), nullptr);
  uint32_t seat = 0;
  EXPECT_EQ(spotps_seat(worker_, &seat, &seat), SPOTPS_ERROR);
  EXPECT_EQ(spotps_notice(worker_), 0);
  EXPECT_EQ(spotps_leave(worker_, "enough", 0), SPOTPS_OK);
}

TEST_F(SpotpsTest, AForkedChildIsToldThatTheWorkerIsItsParents) {
  Open();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_refused =
        Declare("a", 4) == SPOTPS_ERROR &&
        std::string(spotps_error(worker_)).find("forked from process") != std::string::npos &&
        spotps_next(worker_, 0, &task_) == SPOTPS_ERROR;
    ::_exit(is_refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Declare("a", 4), SPOTPS_OK) << "the parent goes on";
}

TEST(ScriptStartTest, WordsComeBackAsTheyWerePrinted) {
  const std::vector<std::string> words = {"python3", "a b", "\"quoted\"", "--x=ä"};
  const Result<std::vector<std::string>> back = ParseWords(PrintWords(words), "--program");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, words);
  EXPECT_THAT(
      ParseWords(R"([""])", "--program").status().ToString(),
      HasSubstr("--program has an entry that is no word; allowed: a JSON list of words"));
}

}  // namespace
}  // namespace ps::worker
