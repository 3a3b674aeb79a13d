#include "run/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ps/base/file.h"
#include "tests/base/temporary_folder.h"
#include "tests/run/sample_status.h"

namespace ps::run {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kNow = 1'706'702'400'250'000;

std::string LineOf(const proto::JobStatus& status) {
  return MetricsToJson(status, MetricsMeter().Measure(status), kNow);
}

std::vector<std::string> TagsOf(const proto::JobStatus& status) {
  std::vector<std::string> tags;
  for (const Scalar& scalar : ScalarsOf(status, MetricsMeter().Measure(status))) {
    tags.push_back(scalar.tag);
  }
  return tags;
}

TEST(MetricsTest, ALineSaysWhereTheRunIs) {
  const std::string line = LineOf(MakeStatus());
  EXPECT_THAT(
      line,
      StartsWith(R"({"time_unix_s":1706702400.25,"elapsed_s":35.5,"state":"training","epoch":1.44,)"
                 R"("train_loss":0.41234,"train_accuracy":0.8523,"test_loss":0.3811,)"
                 R"("test_accuracy":0.8612,"test_epoch":1,"lr":0.01,)"));
  EXPECT_THAT(line, HasSubstr(R"("workers_alive":2,)"));
  EXPECT_THAT(line, Not(HasSubstr("\n")));
}

TEST(MetricsTest, AMetricHasItsOwnName) {
  proto::JobStatus status = MakeStatus();
  status.metric = proto::Metric::kR2;
  status.evaluations.back().accuracy = -0.25;
  status.figures = {{"test_mae", 1.5}};
  const std::string line = LineOf(status);
  EXPECT_THAT(line, HasSubstr(R"("train_loss":0.41234,"test_loss":0.3811,"test_r2":-0.25,)"));
  EXPECT_THAT(line, HasSubstr(R"("metric":"r2","figures":{"test_mae":1.5})"));
  EXPECT_THAT(line, Not(HasSubstr("accuracy")));
  EXPECT_THAT(TagsOf(status), Contains("test/mae"));
  EXPECT_THAT(TagsOf(status), Not(Contains("train/accuracy")));
  status.metric = proto::Metric::kLabelAccuracy;
  EXPECT_THAT(LineOf(status), HasSubstr(R"("train_label_accuracy":0.8523,)"));
  EXPECT_THAT(TagsOf(status), Contains("train/label_accuracy"));
}

TEST(MetricsTest, WhatIsNotKnownYetIsNullAndNotZero) {
  EXPECT_THAT(
      LineOf({}),
      HasSubstr(R"("epoch":null,"train_loss":null,"train_accuracy":null,"test_loss":null,)"
                R"("test_accuracy":null,"test_epoch":null,"lr":null,"staleness_steps":null,)"
                R"("samples_per_s":null,)"));
  EXPECT_THAT(TagsOf({}), ElementsAre("fleet/workers"));
}

TEST(MetricsTest, WhatAScriptTellsOfItsTrainingIsInBothFiles) {
  proto::JobStatus status = MakeStatus();
  status.figures = {{"grad norm", 1.25}, {"perplexity", 48}};
  EXPECT_THAT(LineOf(status), HasSubstr(R"("figures":{"grad norm":1.25,"perplexity":48},)"));
  EXPECT_THAT(TagsOf(status), Contains("script/grad norm"));
  EXPECT_THAT(TagsOf(status), Contains("script/perplexity"));
  EXPECT_THAT(LineOf(MakeStatus()), HasSubstr(R"("figures":{},)"));
}

TEST(MetricsTest, TheGoneHaveNoRateAndNoRow) {
  const std::string line = LineOf(MakeStatus());
  EXPECT_THAT(line, HasSubstr(R"({"worker":1,"incarnation":2,"state":"waiting")"));
  EXPECT_THAT(line, Not(HasSubstr(R"("incarnation":3)")));
}

TEST(MetricsTest, StalenessIsOfThePullsSinceTheLineBefore) {
  MetricsMeter meter;
  proto::JobStatus status = MakeStatus();
  // Two shards, each with 300 pulls at a lead of 1, 50 at 2 and 2 at 3, of 452.
  EXPECT_DOUBLE_EQ(*meter.Measure(status).staleness_steps, 406.0 / 452);
  EXPECT_EQ(meter.Measure(status).staleness_steps, std::nullopt);
  status.shards[0].stats.staleness_histogram[3] += 4;
  EXPECT_DOUBLE_EQ(*meter.Measure(status).staleness_steps, 3);
}

class MetricsFilesTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  RunPaths paths_{folder_.path()};
};

TEST_F(MetricsFilesTest, EachEvaluationIsToldOnce) {
  Result<MetricsFiles> files = MetricsFiles::Open(paths_, true, kNow);
  ASSERT_TRUE(files.ok()) << files.status();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(files->Write(MakeStatus(), kNow), std::nullopt);
  }
  const std::string path = paths_.tensorboard() + "/events.out.tfevents.1706702400.spotps";
  const Result<std::string> bytes = ReadFile(path);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto count = [&](std::string_view tag) {
    size_t n = 0;
    for (size_t at = bytes->find(tag); at != std::string::npos; at = bytes->find(tag, at + 1)) {
      ++n;
    }
    return n;
  };
  EXPECT_EQ(count("train/loss"), 3U);
  EXPECT_EQ(count("test/accuracy"), 1U);
}

TEST_F(MetricsFilesTest, WithoutTensorboardThereAreLinesAlone) {
  Result<MetricsFiles> files = MetricsFiles::Open(paths_, false, kNow);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->Write(MakeStatus(), kNow), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(paths_.tensorboard()));
  EXPECT_THAT(*ReadFile(paths_.metrics()), ::testing::EndsWith("}\n"));
}

}  // namespace
}  // namespace ps::run
