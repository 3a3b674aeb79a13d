// Reading, pruning and copying of whole paths.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/job_store.h"
#include "checkpoint/keys.h"
#include "checkpoint/maintenance.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "tests/checkpoint/memory_storage.h"
#include "tests/checkpoint/workload.h"

namespace ps::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Checkpoints 2 and 3 of the workload.
class ToolsTest : public testing::Test {
 protected:
  void SetUp() override {
    Status end;
    RunWorkload(storage_, "p", 3, &end);
    ASSERT_TRUE(end.ok()) << end;
  }

  std::unique_ptr<Reader> Open(const std::string& path = "p") {
    auto reader = Reader::Open(storage_, path);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return std::move(reader).value();
  }

  MemoryStorage storage_;
};

TEST_F(ToolsTest, ManifestsAreListedAndRead) {
  const auto reader = Open();
  EXPECT_THAT(reader->ids(), ElementsAre(2, 3));
  EXPECT_EQ(reader->ReadManifest(3)->tensors.size(), kWorkloadChunks);
  const Status missing = reader->ReadManifest(7).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("no checkpoint 7 in p; there are: 2, 3"));
}

TEST_F(ToolsTest, WholeCheckpointsVerify) {
  const auto reader = Open();
  EXPECT_THAT(reader->Verify(2), IsEmpty());
  EXPECT_THAT(reader->Verify(3), IsEmpty());
}

TEST_F(ToolsTest, VerifyNamesTheTensorAndGoesOn) {
  auto* record = storage_.ValueOf("p/shard-0", 0, MakeRecordKey(MakeChunkKey(0, 0), 3));
  ASSERT_NE(record, nullptr);
  record->back() ^= std::byte{1};
  const auto reader = Open();
  const std::vector<Damage> damages = reader->Verify(3);
  ASSERT_EQ(damages.size(), 1U);
  EXPECT_EQ(damages[0].what, "tensor0[0:200]");
  EXPECT_EQ(damages[0].status.code(), StatusCode::kCorruption);
  EXPECT_THAT(reader->Verify(2), IsEmpty());
}

TEST_F(ToolsTest, VerifyNamesADamagedPartAndADamagedManifest) {
  storage_.ValueOf("p/shard-0", 1, MakeIdKey(3))->back() ^= std::byte{1};
  storage_.ValueOf("p/job", 0, MakeIdKey(2))->back() ^= std::byte{1};
  const auto reader = Open();
  const std::vector<Damage> part = reader->Verify(3);
  ASSERT_EQ(part.size(), 1U);
  EXPECT_EQ(part[0].what, "part of shard 0");
  const std::vector<Damage> manifest = reader->Verify(2);
  ASSERT_EQ(manifest.size(), 1U);
  EXPECT_EQ(manifest[0].what, "manifest");
}

TEST_F(ToolsTest, ATensorIsReadInOrder) {
  const auto reader = Open();
  std::vector<float> values;
  const Status read = reader->ReadTensor(
      *reader->ReadManifest(3), 2, [&](uint64_t begin, std::span<const float> piece) {
        EXPECT_EQ(begin, values.size());
        values.insert(values.end(), piece.begin(), piece.end());
        return Status::Ok();
      });
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(values.size(), WorkloadValues(2, 0).size());
}

TEST_F(ToolsTest, DifferencesAreByTensor) {
  const auto reader = Open();
  const auto differences = reader->Compare(*reader->ReadManifest(2), *reader->ReadManifest(3));
  ASSERT_TRUE(differences.ok()) << differences.status();
  ASSERT_EQ(differences->size(), kWorkloadChunks);
  const TensorDifference& first = differences->front();
  EXPECT_EQ(first.name, "tensor0");
  EXPECT_EQ(first.elements, 200U);
  EXPECT_GT(first.elements_changed, 190U);
  EXPECT_GT(first.change_max, 0);
  EXPECT_GE(first.change_norm, first.change_max);
  EXPECT_GT(first.norm, first.change_norm);
  const auto none = reader->Compare(*reader->ReadManifest(3), *reader->ReadManifest(3));
  EXPECT_EQ(none->front().elements_changed, 0U);
}

TEST_F(ToolsTest, PruneKeepsTheNewest) {
  const auto report = Prune(storage_, "p", 1);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->kept, ElementsAre(3));
  EXPECT_THAT(report->removed, ElementsAre(2));
  const auto reader = Open();
  EXPECT_THAT(reader->ids(), ElementsAre(3));
  EXPECT_THAT(reader->Verify(3), IsEmpty());
}

TEST_F(ToolsTest, PruneSparesOneThatIsOlder) {
  const auto report = Prune(storage_, "p", 1, 2);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->kept, ElementsAre(2, 3));
  EXPECT_THAT(report->removed, IsEmpty());
  const auto reader = Open();
  EXPECT_THAT(reader->Verify(2), IsEmpty());
}

TEST_F(ToolsTest, PruneRemovesShardsThatNoKeptCheckpointHas) {
  ASSERT_TRUE(ShardStore::Open(storage_, "p", ShardId(5), OpenMode::kWrite).ok());
  const auto report = Prune(storage_, "p", 9);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->removed_directories, ElementsAre("shard-5"));
  EXPECT_THAT(*storage_.List("p"), ElementsAre("job", "job.copy", "shard-0"));
}

// Before, the newest by number stayed, whatever was left of it, and the good one went.
TEST_F(ToolsTest, PruneCountsNoCheckpointThatIsDamaged) {
  storage_.ValueOf("p/shard-0", 0, MakeRecordKey(MakeChunkKey(0, 0), 3))->back() ^= std::byte{1};
  const auto report = Prune(storage_, "p", 1);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->kept, ElementsAre(2));
  EXPECT_THAT(report->removed, ElementsAre(3));
  ASSERT_EQ(report->damaged.size(), 1U);
  EXPECT_EQ(report->damaged[0].id, 3U);
  EXPECT_THAT(report->damaged[0].why, HasSubstr("tensor0"));
  EXPECT_THAT(report->unread, IsEmpty());
  EXPECT_THAT(Open()->Verify(2), IsEmpty());
}

TEST_F(ToolsTest, PruneRemovesNothingWhereNoCheckpointIsWhole) {
  storage_.ValueOf("p/shard-0", 1, MakeIdKey(2))->back() ^= std::byte{1};
  storage_.ValueOf("p/shard-0", 1, MakeIdKey(3))->back() ^= std::byte{1};
  const auto report = Prune(storage_, "p", 1);
  EXPECT_EQ(report.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("none was removed"));
  EXPECT_THAT(Open()->ids(), ElementsAre(2, 3));
}

TEST_F(ToolsTest, PruneLeavesACheckpointWhoseFolderIsNotThere) {
  Status end;
  RunWorkload(storage_, "q", 3, &end);
  ASSERT_TRUE(end.ok()) << end;
  {
    const auto job = JobStore::Open(storage_, "q", OpenMode::kWrite);
    ASSERT_TRUE(job.ok()) << job.status();
    Manifest elsewhere = DecodeManifest(3, *(*job)->ReadManifest(3)).value();
    elsewhere.parts[0].directory = "shard-7";
    elsewhere.id = 4;
    ASSERT_TRUE((*job)->PutManifest(4, EncodeManifest(elsewhere)).ok());
  }
  const auto report = Prune(storage_, "q", 1);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->kept, ElementsAre(3));
  EXPECT_THAT(report->removed, ElementsAre(2));
  ASSERT_EQ(report->unread.size(), 1U);
  EXPECT_EQ(report->unread[0].id, 4U);
  EXPECT_THAT(Open("q")->ids(), ElementsAre(3, 4));
  EXPECT_THAT(*storage_.List("q"), ElementsAre("job", "job.copy", "shard-0")) << "no shard-7";
}

TEST_F(ToolsTest, PruneOfARunningPathAndOfNothingIsRefused) {
  EXPECT_EQ(Prune(storage_, "q", 1).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(*storage_.List("q"), IsEmpty()) << "nothing was created";
  const auto job = JobStore::Open(storage_, "p", OpenMode::kWrite);
  EXPECT_EQ(Prune(storage_, "p", 1).status().code(), StatusCode::kUnavailable);
}

TEST_F(ToolsTest, ACopyIsWholeAndGoesOnWhereItWas) {
  const auto first = Copy(storage_, "p", "q");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(first->copied, ElementsAre(2, 3));
  EXPECT_GT(first->written_bytes, 0U);
  EXPECT_THAT(Open("q")->Verify(2), IsEmpty());
  EXPECT_THAT(Open("q")->Verify(3), IsEmpty());

  Status end;
  RunWorkload(storage_, "p", 1, &end);
  ASSERT_TRUE(end.ok()) << end;
  const auto second = Copy(storage_, "p", "q");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(second->present, ElementsAre(2, 3));
  EXPECT_THAT(second->copied, ElementsAre(4));
  EXPECT_LT(second->written_bytes, first->written_bytes) << "only what changed";
  EXPECT_THAT(Open("q")->Verify(4), IsEmpty());
  const auto same = Open("q")->Compare(*Open("q")->ReadManifest(4), *Open()->ReadManifest(4));
  ASSERT_TRUE(same.ok()) << same.status();
}

TEST_F(ToolsTest, ACopyThatWasCutOffIsMadeAgain) {
  int flushes = 0;
  storage_.SetFaultHook([&](Operation operation, const std::string& directory) {
    const bool is_cut = operation == Operation::kWrite && directory == "q/job" && ++flushes == 2;
    return is_cut ? Status::Io("cut off") : Status::Ok();
  });
  EXPECT_EQ(Copy(storage_, "p", "q").status().code(), StatusCode::kIo);
  const auto again = Copy(storage_, "p", "q");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(again->present, ElementsAre(2));
  EXPECT_THAT(again->copied, ElementsAre(3));
  EXPECT_THAT(Open("q")->Verify(3), IsEmpty());
}

TEST_F(ToolsTest, ACopyOfSomethingElseIsRefused) {
  Status end;
  RunWorkload(storage_, "q", 2, &end);
  auto* record = storage_.ValueOf("q/shard-0", 1, MakeIdKey(2));
  ASSERT_NE(record, nullptr);
  PartRecord part = *DecodePart(2, *record);
  part.chunks[0].crc ^= 1;
  *record = EncodePart(2, part);
  EXPECT_EQ(Copy(storage_, "p", "q").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Copy(storage_, "p", "p").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ps::checkpoint
