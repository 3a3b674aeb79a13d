#include "run/page/history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>

#include "run/metrics.h"
#include "tests/base/temporary_folder.h"
#include "tests/run/sample_status.h"

namespace ps::run {
namespace {

HistoryPoint PointAt(double unix_s) {
  HistoryPoint point;
  point.unix_s = unix_s;
  point.train_loss = 1 / unix_s;
  return point;
}

std::string Line(double unix_s, const std::string& rows = "") {
  return R"({"time_unix_s":)" + std::to_string(unix_s) +
         R"(,"elapsed_s":3,"train_loss":0.5,"test_loss":null,"workers_alive":2,"workers":[)" +
         rows + "]}";
}

TEST(HistoryTest, IsBoundedAndKeepsBothEnds) {
  History history(100);
  for (int i = 1; i <= 100'000; ++i) {
    history.Add(PointAt(i));
    ASSERT_LE(history.points().size(), 100U);
    ASSERT_EQ(history.points().back().unix_s, i);
  }
  EXPECT_GE(history.points().size(), 50U);
  EXPECT_GE(history.thinned(), 9U);
  EXPECT_LT(history.points().front().unix_s, 3000);
  for (size_t i = 1; i < history.points().size(); ++i) {
    EXPECT_LT(history.points()[i - 1].unix_s, history.points()[i].unix_s);
  }
}

TEST(HistoryTest, LeavesOutWhatIsNotLater) {
  History history;
  history.Add(PointAt(5));
  history.Add(PointAt(5));
  history.Add(PointAt(4));
  history.Add(PointAt(std::nan("")));
  history.Add(PointAt(6));
  EXPECT_EQ(history.points().size(), 2U);
}

TEST(HistoryTest, TellsWhatCameSince) {
  History history(4);
  for (int i = 1; i <= 3; ++i) {
    history.Add(PointAt(i));
  }
  const std::string begin =
      R"({"thinned":0,"columns":["time_unix_s","elapsed_s","epoch","train_loss",)"
      R"("train_accuracy","test_loss","test_accuracy","samples_per_s","workers_alive",)"
      R"("usd_spent"],"rows":[)";
  EXPECT_EQ(
      HistoryToJson(history, 2, 0),
      begin + "[3,0,null,0.3333333333333333,null,null,null,null,0,null]]}");
  EXPECT_EQ(HistoryToJson(history, 3, 0), begin + "]}");
  history.Add(PointAt(4));
  history.Add(PointAt(5));  // every second one went: whoever follows gets all
  ASSERT_EQ(history.thinned(), 1U);
  EXPECT_NE(HistoryToJson(history, 5, 0), HistoryToJson(history, 5, 1));
  EXPECT_NE(HistoryToJson(history, 5, 0).find("[[1,0"), std::string::npos);
}

TEST(HistoryTest, ReadsWhatTheCoordinatorWrites) {
  const proto::JobStatus status = MakeStatus();
  const std::string line =
      MetricsToJson(status, MetricsMeter().Measure(status), 1'700'000'000'000'000);
  HistoryPoint read;
  ASSERT_TRUE(HistoryPointFromLine(line, &read));
  const HistoryPoint told = HistoryPointOf(status, 1.7e9);
  EXPECT_EQ(read.unix_s, 1.7e9);
  EXPECT_EQ(read.elapsed_s, told.elapsed_s);
  EXPECT_EQ(read.epoch, told.epoch);
  EXPECT_EQ(read.train_loss, told.train_loss);
  EXPECT_EQ(read.train_accuracy, told.train_accuracy);
  EXPECT_EQ(read.test_loss, told.test_loss);
  EXPECT_EQ(read.test_accuracy, told.test_accuracy);
  EXPECT_EQ(read.samples_per_s, told.samples_per_s);
  EXPECT_EQ(read.workers, told.workers);
  EXPECT_EQ(read.usd_spent, told.usd_spent);
}

TEST(HistoryTest, TakesAnyLine) {
  HistoryPoint point;
  for (const char* line :
       {"",
        "{",
        "[]",
        "null",
        "{}",
        R"({"time_unix_s":"5"})",
        R"({"time_unix_s":0})",
        R"({"time_unix_s":1e999})",
        R"({"time_unix_s":-3})",
        R"(,"workers":[)"}) {
    EXPECT_FALSE(HistoryPointFromLine(line, &point)) << line;
  }
  EXPECT_TRUE(HistoryPointFromLine(Line(5), &point));
  EXPECT_TRUE(std::isnan(point.test_loss));
  EXPECT_EQ(point.workers, 2);
}

TEST(HistoryTest, ReadsAFileWithBrokenLines) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  std::ofstream(path) << Line(1) << "\n"
                      << "{\"time_unix_s\": 2, \"tra\n"
                      << "\0\xff\n"
                      << Line(3) << "\n"
                      << Line(2) << "\n"
                      << Line(4);  // not whole yet
  const Result<History> history = ReadHistory(path);
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->points().size(), 2U);
  EXPECT_EQ(history->points()[1].unix_s, 3);
  EXPECT_EQ(
      ReadHistory(folder.path() + "/none").status().message(),
      "cannot read " + folder.path() + "/none: No such file or directory");
}

TEST(HistoryTest, ReadsALongFileAtSomePlaces) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  {
    std::ofstream file(path);
    const std::string row = R"({"worker":1,"samples_counted":123456789,"state":"computing"})";
    std::string rows = row;
    for (int i = 0; i < 200; ++i) {
      rows += "," + row;
    }
    for (int i = 1; i <= 3000; ++i) {
      file << Line(i, rows) << "\n";
    }
    ASSERT_GT(file.tellp(), 30 << 20);
  }
  const Result<History> history = ReadHistory(path, 1000);
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_GT(history->points().size(), 400U);
  EXPECT_LE(history->points().size(), 1000U);
  EXPECT_LT(history->points().front().unix_s, 20);
  EXPECT_GT(history->points().back().unix_s, 2980);
}

}  // namespace
}  // namespace ps::run
