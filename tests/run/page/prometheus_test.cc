#include "run/page/prometheus.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "ps/base/file.h"
#include "ps/json/json_value.h"
#include "tests/base/temporary_folder.h"
#include "tests/run/sample_status.h"

namespace ps::run {
namespace {

/// A status of which every line is told.
proto::JobStatus FullStatus() {
  proto::JobStatus status = MakeStatus();
  status.checkpoints.is_on = true;
  status.checkpoints.newest = 3;
  status.figures = {{"perplexity", 12.5}};
  status.fleet = {{.type = "spot", .wanted = 3, .present = 2}};
  return status;
}

/// The names of lines, with what they are.
std::map<std::string, std::string> Names(const std::string& text) {
  std::map<std::string, std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      const size_t blank = line.find(' ', 7);
      names[line.substr(7, blank - 7)] = line.substr(blank + 1);
    }
  }
  return names;
}

TEST(PrometheusTest, EachNameHasItsHelpItsTypeAndItsLines) {
  const std::string text = RenderPrometheus(FullStatus(), "spotps 9", 0.25);
  std::set<std::string> seen;
  std::string name;
  std::istringstream lines(text);
  size_t values = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(seen.insert(name).second) << name << " stands twice";
      EXPECT_TRUE(name.starts_with("spotps_")) << name;
      EXPECT_EQ(line.back(), '.') << line;
    } else if (line.starts_with("# TYPE ")) {
      const bool is_counter = line.ends_with(" counter");
      EXPECT_EQ(is_counter, name.ends_with("_total")) << line;
      EXPECT_TRUE(line.starts_with("# TYPE " + name + " ")) << line;
    } else {
      EXPECT_TRUE(line.starts_with(name + "{job_name=\"fashion-mnist\"")) << line;
      ++values;
    }
  }
  EXPECT_GT(values, 60U);
  EXPECT_NE(
      text.find("spotps_train_loss{job_name=\"fashion-mnist\"} 0.41234\n"), std::string::npos);
  EXPECT_NE(
      text.find("spotps_run_state{job_name=\"fashion-mnist\",state=\"training\"} 1\n"),
      std::string::npos);
  EXPECT_NE(
      text.find("spotps_workers{job_name=\"fashion-mnist\",state=\"lost\"} 1\n"),
      std::string::npos);
  EXPECT_NE(
      text.find("spotps_shard_received_bytes_total{job_name=\"fashion-mnist\",shard=\"1\"} "),
      std::string::npos);
}

TEST(PrometheusTest, AnEvaluationSaysOfWhichSamplesItIs) {
  proto::JobStatus status = FullStatus();
  const auto has = [&](const std::string& line) {
    return RenderPrometheus(status, "spotps 9", 0.25).find(line) != std::string::npos;
  };
  EXPECT_TRUE(has("spotps_test_loss{job_name=\"fashion-mnist\",part=\"test\"} "));
  status.validation_samples = 100;
  status.has_last_evaluation = false;
  EXPECT_TRUE(has("spotps_test_loss{job_name=\"fashion-mnist\",part=\"validation\"} "));
  EXPECT_TRUE(has("spotps_test_accuracy_ratio{job_name=\"fashion-mnist\",part=\"validation\"} "));
  status.has_last_evaluation = true;
  EXPECT_TRUE(has("spotps_test_loss{job_name=\"fashion-mnist\",part=\"test\"} "));
}

TEST(PrometheusTest, WhatIsNotKnownHasNoLine) {
  proto::JobStatus status;
  status.name = "new";
  const auto names = Names(RenderPrometheus(status, "spotps 9", 0));
  for (const char* name :
       {"spotps_train_loss",
        "spotps_test_loss",
        "spotps_eta_seconds",
        "spotps_checkpoint_age_seconds",
        "spotps_worker_samples_per_second"}) {
    EXPECT_FALSE(names.contains(name)) << name;
  }
  EXPECT_TRUE(names.contains("spotps_workers_wanted"));
}

TEST(PrometheusTest, NamesOfPeopleBreakNoLine) {
  proto::JobStatus status = FullStatus();
  status.name = "a\"b\\c\nd{}";
  const std::string text = RenderPrometheus(status, "spotps 9", 0);
  EXPECT_NE(text.find("{job_name=\"a\\\"b\\\\c"), std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.starts_with("# ") || line.starts_with("spotps_")) << line;
  }
}

TEST(PrometheusTest, ALargeFleetHasTheLinesOfTheFleetAlone) {
  proto::JobStatus status = FullStatus();
  for (uint32_t i = 0; i < 10'000; ++i) {
    status.workers.push_back(MakeWorkerRow(i, i + 10, proto::WorkerRowState::kComputing));
    status.shards.push_back(status.shards.front());
  }
  const std::string text = RenderPrometheus(status, "spotps 9", 0);
  EXPECT_LT(text.size(), 16U << 10);
  EXPECT_TRUE(Names(text).contains("spotps_workers_samples_per_second"));
  EXPECT_FALSE(Names(text).contains("spotps_worker_samples_per_second"));
  EXPECT_FALSE(Names(text).contains("spotps_shard_chunks"));
}

TEST(PrometheusTest, PromtoolHasNothingToSay) {
  if (std::system("command -v promtool > /dev/null") != 0) {
    GTEST_SKIP() << "promtool is not installed (scripts/setup.sh --tests installs prometheus)";
  }
  const TemporaryFolder folder;
  const std::string lines = folder / "metrics";
  const std::string said = folder / "said";
  ASSERT_TRUE(WriteFileAtomically(lines, RenderPrometheus(FullStatus(), "spotps 9", 0.25)).ok());
  const int code =
      std::system(("promtool check metrics < " + lines + " > " + said + " 2>&1").c_str());
  const Result<std::string> text = ReadFile(said);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "");
  EXPECT_EQ(code, 0);
}

/// Collects the queries of a dashboard.
void AddQueries(const JsonValue& value, std::vector<std::string>* queries) {
  if (value.key == "expr") {
    queries->push_back(value.text);
  }
  for (const JsonValue& child : value.children) {
    AddQueries(child, queries);
  }
}

TEST(PrometheusTest, TheDashboardAsksForNamesThatAreThere) {
  const Result<std::string> text = ReadFile("configs/grafana/spotps.json");
  ASSERT_TRUE(text.ok()) << text.status();
  const Result<JsonValue> dashboard = ParseJson(*text, "spotps.json");
  ASSERT_TRUE(dashboard.ok()) << dashboard.status();
  std::vector<std::string> queries;
  AddQueries(*dashboard, &queries);
  EXPECT_GE(queries.size(), 12U);
  const auto names = Names(RenderPrometheus(FullStatus(), "spotps 9", 0));
  for (const std::string& query : queries) {
    size_t found = 0;
    for (size_t at = query.find("spotps_"); at != std::string::npos;
         at = query.find("spotps_", at + 1)) {
      const size_t end = query.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", at);
      const std::string name = query.substr(at, end - at);
      EXPECT_TRUE(names.contains(name)) << query;
      // A counter is looked at as a rate or an increase, or as what it came to.
      ++found;
    }
    EXPECT_GE(found, 1U) << query;
  }
}

}  // namespace
}  // namespace ps::run
