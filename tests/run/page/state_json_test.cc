#include "run/page/state_json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "ps/json/json_value.h"
#include "run/report/summary.h"
#include "tests/run/sample_status.h"

namespace ps::run {
namespace {

std::string StateOf(const proto::JobStatus& status) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  AddPageState(status, &json);
  json.EndObject();
  return std::move(json).Take();
}

/// Worker i trains i samples a second.
proto::JobStatus Fleet(uint32_t workers) {
  proto::JobStatus status = MakeStatus();
  status.workers.clear();
  for (uint32_t i = 0; i < workers; ++i) {
    proto::WorkerRow row = MakeWorkerRow(i, i + 1, proto::WorkerRowState::kComputing);
    row.stats.samples_per_s = i + 1;
    row.host = "host-" + std::to_string(i);
    status.workers.push_back(std::move(row));
  }
  return status;
}

std::vector<uint32_t> Seats(const std::vector<const proto::WorkerRow*>& rows) {
  std::vector<uint32_t> seats;
  for (const proto::WorkerRow* const row : rows) {
    seats.push_back(row->worker.value);
  }
  return seats;
}

TEST(PageStateTest, AllWorkersOfASmallFleetStandInTheirPlaces) {
  proto::JobStatus status = Fleet(5);
  EXPECT_EQ(Seats(WorstWorkers(status, 20)), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  status.workers[3].silent_s = 2;  // lost after 3
  status.workers[1].state = proto::WorkerRowState::kLost;
  EXPECT_EQ(Seats(WorstWorkers(status, 20)), (std::vector<uint32_t>{3, 0, 2, 4, 1}));
}

TEST(PageStateTest, OfALargeFleetTheWorstTwentyAreShown) {
  proto::JobStatus status = Fleet(10'000);
  status.workers[7000].silent_s = 2;
  status.workers[8000].state = proto::WorkerRowState::kSitsOut;
  for (uint32_t i = 9000; i < 9100; ++i) {
    status.workers[i].state = proto::WorkerRowState::kLost;
  }
  EXPECT_EQ(
      Seats(WorstWorkers(status, 20)),
      (std::vector<uint32_t>{7000, 8000, 0,    1,    2,    3,    4,    5,    6,    7,
                             8,    9,    9099, 9098, 9097, 9096, 9095, 9094, 9093, 9092}));
  status.workers.resize(5);
  status.workers.resize(60, MakeWorkerRow(6, 7, proto::WorkerRowState::kLost));
  const auto rows = WorstWorkers(status, 20);
  EXPECT_EQ(rows.size(), 20U);
  EXPECT_EQ(std::ranges::count_if(rows, &proto::WorkerRow::is_gone), 15);
}

TEST(PageStateTest, HasABoundWhateverTheFleet) {
  proto::JobStatus status = Fleet(10'000);
  for (uint32_t i = 0; i < 1000; ++i) {
    proto::ShardRow row = status.shards.front();
    row.shard = ShardId(i);
    status.shards.push_back(row);
    status.waits.push_back(status.waits.front());
    status.fleet.push_back({.type = "type-" + std::to_string(i), .wanted = 1});
    status.workers[i].type = "type-" + std::to_string(i);
    status.workers[i].reason = std::string(16 << 10, 'r');
  }
  status.detail = std::string(16 << 10, 'd');
  const std::string json = StateOf(status);
  EXPECT_LT(json.size(), 64U << 10);
  EXPECT_TRUE(ParseJson(json, "state").ok());
}

TEST(PageStateTest, AddsTheFleetUp) {
  proto::JobStatus status = Fleet(100);
  status.workers[0].state = proto::WorkerRowState::kLost;
  const Result<JsonValue> json = ParseJson(StateOf(status), "state");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->At("fleet.alive")->text, "99");
  EXPECT_EQ(json->At("fleet.states.computing")->text, "99");
  EXPECT_EQ(json->At("fleet.states.lost")->text, "1");
  EXPECT_EQ(json->At("fleet.rate_min")->text, "2");
  EXPECT_EQ(json->At("fleet.rate_median")->text, "51");
  EXPECT_EQ(json->At("fleet.rate_max")->text, "100");
  EXPECT_EQ(json->At("workers_hidden")->text, "80");
}

TEST(PageStateTest, SaysWhatAPersonShouldKnow) {
  proto::JobStatus status = Fleet(1);
  EXPECT_EQ(StateOf(status).find("\"notices\":[]") == std::string::npos, false);
  status.checkpoints.trouble = "No space left on device";
  status.has_diverged = true;
  const std::string json = StateOf(status);
  EXPECT_NE(json.find("the newest checkpoint failed: No space left on device"), std::string::npos);
  EXPECT_NE(json.find("training has diverged"), std::string::npos);
}

TEST(PageStateTest, ASummaryIsReadBack) {
  proto::JobStatus told = MakeStatus();
  told.state = proto::RunState::kDone;
  told.usd_spent = 1.25;
  told.traffic.usd = 0.75;
  told.traffic.bytes = 3'000'000'000;
  told.checkpoints.committed = 3;
  const proto::JobStatus read = StatusFromSummary(SummaryToJson(told), "summary.json");
  EXPECT_EQ(read.name, told.name);
  EXPECT_EQ(read.run_directory, told.run_directory);
  EXPECT_EQ(read.state, told.state);
  EXPECT_EQ(read.epochs, told.epochs);
  EXPECT_EQ(read.train_loss, told.train_loss);
  EXPECT_EQ(read.train_accuracy, told.train_accuracy);
  EXPECT_EQ(read.elapsed_s, told.elapsed_s);
  EXPECT_EQ(read.samples_counted, told.samples_counted);
  EXPECT_EQ(read.samples_total, told.samples_total);
  EXPECT_EQ(read.steps_counted, told.steps_counted);
  EXPECT_EQ(read.steps_lost, told.steps_lost);
  EXPECT_EQ(read.joins, told.joins);
  EXPECT_EQ(read.usd_spent, told.usd_spent);
  EXPECT_EQ(read.traffic.usd, told.traffic.usd);
  EXPECT_EQ(read.traffic.bytes, told.traffic.bytes);
  EXPECT_EQ(read.checkpoints.committed, told.checkpoints.committed);
  ASSERT_EQ(read.evaluations.size(), told.evaluations.size());
  EXPECT_EQ(read.evaluations[0].accuracy, told.evaluations[0].accuracy);
  EXPECT_EQ(read.evaluations[0].epoch, told.evaluations[0].epoch);
  ASSERT_EQ(read.workers.size(), told.workers.size());
  EXPECT_EQ(read.workers[1].device, told.workers[1].device);
  EXPECT_EQ(read.workers[1].stats.steps, told.workers[1].stats.steps);
}

TEST(PageStateTest, ASummaryMayBeAnything) {
  for (const char* text :
       {"",
        "{",
        "[]",
        "{}",
        R"({"state":7,"epochs":-3,"workers":{},"evaluations":[1,"a",null,[]]})",
        R"({"epochs":1e300,"workers":[{"worker":-1},{"worker":1e300},5]})"}) {
    const proto::JobStatus status = StatusFromSummary(text, "summary.json");
    EXPECT_TRUE(ParseJson(StateOf(status), "state").ok()) << text;
  }
}

}  // namespace
}  // namespace ps::run
