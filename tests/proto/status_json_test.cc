#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ps/json/json_value.h"
#include "ps/proto/messages.h"
#include "tests/proto/members.h"
#include "tests/proto/sample.h"

namespace ps::proto {
namespace {

using Kind = JsonValue::Kind;

const JsonValue& At(const JsonValue& value, std::string_view key) {
  const JsonValue* found = value.Find(key);
  EXPECT_NE(found, nullptr) << key;
  static const JsonValue kNothing;
  return found == nullptr ? kNothing : *found;
}

JsonValue Parse(const JobStatus& status) {
  auto parsed = ParseJson(StatusToJson(status), "status");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? std::move(parsed).value() : JsonValue();
}

TEST(StatusJsonTest, EveryMemberIsShownUnderItsName) {
  JobStatus status;
  tests::Filler().Fill(status);
  const JsonValue json = Parse(status);
  EXPECT_EQ(json.children.size(), tests::MemberCount<JobStatus>());
  EXPECT_EQ(At(json, "name").text, status.name);
  EXPECT_EQ(At(json, "mode").text, "ssp");
  EXPECT_EQ(At(json, "samples_total").text, std::to_string(status.samples_total));
  EXPECT_EQ(At(json, "generation").text, std::to_string(status.generation.value));
  const JsonValue& worker = At(json, "workers").children.at(1);
  // steps_late and times stand beside the stats, as on the wire.
  EXPECT_EQ(worker.children.size(), tests::MemberCount<WorkerRow>() + 2);
  EXPECT_EQ(At(worker, "times").children.size(), tests::MemberCount<WorkerTimes>());
  EXPECT_EQ(At(worker, "steps_late").text, std::to_string(status.workers[1].stats.steps_late));
  EXPECT_EQ(At(worker, "pid").text, std::to_string(status.workers[1].pid));
  EXPECT_EQ(At(worker, "stats").children.size(), tests::MemberCount<WorkerStats>() - 2);
  EXPECT_EQ(
      At(At(worker, "stats"), "bytes_pulled").text,
      std::to_string(status.workers[1].stats.bytes_pulled));
  const JsonValue& shard = At(json, "shards").children.at(0);
  EXPECT_EQ(At(shard, "stats").children.size(), tests::MemberCount<ShardStats>());
  EXPECT_EQ(At(At(shard, "stats"), "staleness_histogram").children.size(), 2U);
  EXPECT_EQ(
      At(At(shard, "stats"), "workers").children.at(1).children.size(),
      tests::MemberCount<WorkerAtShard>());
  EXPECT_EQ(At(json, "ledger").children.at(1).children.size(), tests::MemberCount<LedgerRow>());
  EXPECT_EQ(
      At(json, "evaluations").children.at(0).children.size(), tests::MemberCount<EvaluationRow>());
  EXPECT_EQ(At(At(json, "steps"), "in_force").children.size(), tests::MemberCount<StepSettings>());
  EXPECT_EQ(At(At(At(json, "steps"), "in_force"), "push").text, "topk:0.25");
  EXPECT_EQ(At(json, "events").children.at(1).children.size(), tests::MemberCount<EventRow>());
  EXPECT_EQ(At(json, "waits").children.at(0).children.size(), tests::MemberCount<Wait>());
}

TEST(StatusJsonTest, EmptyStatusIsValidJson) {
  const JsonValue json = Parse(JobStatus());
  EXPECT_EQ(At(json, "workers").kind, Kind::kList);
  EXPECT_EQ(At(json, "eta_s").text, "-1");
  EXPECT_EQ(At(json, "name").kind, Kind::kText);
}

TEST(StatusJsonTest, NotANumberAndInfinityAreNull) {
  JobStatus status;
  status.train_loss = std::nan("");
  status.samples_per_s = std::numeric_limits<double>::infinity();
  status.workers.resize(1);
  status.workers[0].slowdown = std::numeric_limits<float>::quiet_NaN();
  status.evaluations = {{1, std::nan(""), 0.5, 10, 1}};
  const JsonValue json = Parse(status);
  EXPECT_EQ(At(json, "train_loss").kind, Kind::kNull);
  EXPECT_EQ(At(json, "samples_per_s").kind, Kind::kNull);
  EXPECT_EQ(At(At(json, "workers").children.at(0), "slowdown").kind, Kind::kNull);
  EXPECT_EQ(At(At(json, "evaluations").children.at(0), "accuracy").kind, Kind::kNull);
}

TEST(StatusJsonTest, LargeNumbersAndStrangeTextsSurvive) {
  JobStatus status;
  status.samples_total = UINT64_MAX;
  status.detail = "a \"b\"\n\x01\t\\ \xc3\xa4";
  status.name = "bad \xff byte";
  const JsonValue json = Parse(status);
  EXPECT_EQ(At(json, "samples_total").text, "18446744073709551615");
  EXPECT_EQ(At(json, "detail").text, status.detail);
  EXPECT_EQ(At(json, "name").text, "bad \xef\xbf\xbd byte");
}

}  // namespace
}  // namespace ps::proto
