// What the coordinator's store keeps, over each storage engine.

#include "checkpoint/job_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/checkpoint/engines.h"
#include "tests/checkpoint/memory_storage.h"

namespace ps::checkpoint {
namespace {

std::vector<std::byte> Text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Status PutRow(JobStore& store, std::string_view key, std::string_view value) {
  const RowChange change{
      .kind = ChangeKind::kPut, .key = key, .value = std::as_bytes(std::span(value))};
  return store.WriteRows({&change, 1});
}

class JobStoreTest : public testing::TestWithParam<const Engine*> {
 protected:
  void SetUp() override { Reopen(); }

  void Reopen() {
    store_.reset();
    auto store = JobStore::Open(engine_->storage(), engine_->path() + "/p", OpenMode::kWrite);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = std::move(store).value();
  }

  std::unique_ptr<EngineUnderTest> engine_ = GetParam()->make();
  std::unique_ptr<JobStore> store_;
};

TEST_P(JobStoreTest, ManifestsAreKeptOldestFirst) {
  ASSERT_TRUE(store_->PutManifest(9, Text("nine")).ok());
  ASSERT_TRUE(store_->PutManifest(300, Text("three hundred")).ok());
  Reopen();
  EXPECT_EQ(*store_->Manifests(), (std::vector<CheckpointId>{9, 300}));
  EXPECT_EQ(*store_->ReadManifest(9), Text("nine"));
  ASSERT_TRUE(store_->DeleteManifest(9).ok());
  ASSERT_TRUE(store_->DeleteManifest(9).ok());
  Reopen();
  EXPECT_EQ(*store_->Manifests(), (std::vector<CheckpointId>{300}));
  EXPECT_EQ(store_->ReadManifest(9).status().code(), StatusCode::kNotFound);
}

TEST_P(JobStoreTest, AManifestIsNeverReplaced) {
  ASSERT_TRUE(store_->PutManifest(2, Text("two")).ok());
  for (const CheckpointId id : {CheckpointId{1}, CheckpointId{2}}) {
    EXPECT_EQ(store_->PutManifest(id, Text("again")).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(*store_->ReadManifest(2), Text("two"));
}

TEST_P(JobStoreTest, RowsOutliveTheProcess) {
  ASSERT_TRUE(PutRow(*store_, "lease/1", "a").ok());
  ASSERT_TRUE(PutRow(*store_, "lease/2", "b").ok());
  ASSERT_TRUE(PutRow(*store_, "member/1", "c").ok());
  Reopen();
  EXPECT_EQ(
      *store_->ReadRows("lease/"),
      (std::vector<Row>{
          {.key = "lease/1", .value = Text("a")}, {.key = "lease/2", .value = Text("b")}}));
  EXPECT_EQ(store_->ReadRows("")->size(), 3U);
}

TEST_P(JobStoreTest, ABatchOfRowsReplacesAPrefix) {
  ASSERT_TRUE(PutRow(*store_, "journal/1", "old").ok());
  const auto value = Text("new");
  const std::vector<RowChange> changes = {
      {.kind = ChangeKind::kErasePrefix, .key = "journal/", .value = {}},
      {.kind = ChangeKind::kPut, .key = "journal/2", .value = value}};
  ASSERT_TRUE(store_->WriteRows(changes).ok());
  Reopen();
  EXPECT_EQ(*store_->ReadRows(""), (std::vector<Row>{{.key = "journal/2", .value = value}}));
}

TEST_P(JobStoreTest, TheSecondRunOnAPathIsRefused) {
  const auto second = JobStore::Open(engine_->storage(), engine_->path() + "/p", OpenMode::kWrite);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(Engines, JobStoreTest, testing::ValuesIn(Engines()), EngineName);

TEST(JobStoreOnALostMachineTest, ManifestsAndWhatWasBeforeThemAreKept) {
  MemoryStorage storage;
  auto store = JobStore::Open(storage, "/p", OpenMode::kWrite);
  ASSERT_TRUE(PutRow(**store, "a", "before").ok());
  ASSERT_TRUE((*store)->PutManifest(1, Text("one")).ok());
  ASSERT_TRUE(PutRow(**store, "b", "after").ok());
  store->reset();
  storage.LoseMachine("/p");
  store = JobStore::Open(storage, "/p", OpenMode::kWrite);
  EXPECT_EQ(*(*store)->Manifests(), (std::vector<CheckpointId>{1}));
  EXPECT_EQ(*(*store)->ReadRows(""), (std::vector<Row>{{.key = "a", .value = Text("before")}}));
}

}  // namespace
}  // namespace ps::checkpoint
