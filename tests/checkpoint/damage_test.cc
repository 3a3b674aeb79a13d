// Files of a database that are torn, cut off or have a wrong bit.

#include <dlfcn.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "checkpoint/job_store.h"
#include "checkpoint/keys.h"
#include "checkpoint/reader.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "tests/checkpoint/temporary_path.h"
#include "tests/checkpoint/workload.h"

namespace ps::checkpoint {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ReadWhole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteAll(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// A path whose checkpoints 2 and 3 are kept.
class DamageTest : public testing::Test {
 protected:
  void SetUp() override {
    Status end;
    RunWorkload(*storage_, path_.path(), 3, &end);
    ASSERT_TRUE(end.ok()) << end;
    for (const uint64_t id : {2U, 3U}) {
      const Status whole = Check(id);
      ASSERT_TRUE(whole.ok()) << whole;
    }
  }

  Status Check(uint64_t id) { return CheckCheckpoint(*storage_, path_.path(), id); }

  /// Files of a database that have data.
  std::vector<std::string> Files(const std::string& directory) const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_.path() + "/" + directory)) {
      const std::string name = entry.path().filename().string();
      const bool is_data = name.ends_with(".sst") || name.ends_with(".blob") ||
                           name.ends_with(".log") || name.starts_with("MANIFEST") ||
                           name == "CURRENT";
      if (is_data && entry.file_size() > 0) {
        files.push_back(entry.path().string());
      }
    }
    return files;
  }

  /// Damage is told as damage, and names the checkpoint or the database that it is in.
  void ExpectToldOrHarmless(const std::string& file, const std::string& what) {
    for (const uint64_t id : {2U, 3U}) {
      const Status status = Check(id);
      if (!status.ok()) {
        EXPECT_TRUE(
            status.code() == StatusCode::kCorruption || status.code() == StatusCode::kNotFound ||
            status.code() == StatusCode::kUnsupported || status.code() == StatusCode::kIo)
            << file << ", " << what << ": " << status;
        EXPECT_THAT(
            std::string(status.message()),
            AnyOf(HasSubstr("in checkpoint "), HasSubstr(path_.path())))
            << file << what;
      }
    }
  }

  /// Damage of one index is made good by the other one.
  void ExpectHarmless(const std::string& file, const std::string& what) {
    for (const uint64_t id : {2U, 3U}) {
      const Status status = Check(id);
      EXPECT_TRUE(status.ok()) << file << ", " << what << ": " << status;
    }
  }

  template <typename Expect>
  void DamageEverywhere(const std::string& directory, size_t flips, const Expect& expect) {
    for (const std::string& file : Files(directory)) {
      const std::string whole = ReadWhole(file);
      for (const size_t size : {size_t{0}, whole.size() / 2, whole.size() - 1}) {
        WriteAll(file, whole.substr(0, size));
        expect(file, fmt::format("cut to {}", size));
      }
      for (size_t i = 0; i < flips; ++i) {
        const size_t at = (whole.size() - 1) * i / (flips - 1);
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
        WriteAll(file, damaged);
        expect(file, fmt::format("wrong bit in byte {}", at));
      }
      WriteAll(file, whole);
    }
    EXPECT_TRUE(Check(2).ok() && Check(3).ok()) << "put right again";
  }

  TemporaryPath path_;
  std::unique_ptr<Storage> storage_ = MakeRocksDbStorage();
};

TEST_F(DamageTest, NoDamageOfAShardsFilesGivesWrongValues) {
  DamageEverywhere("shard-0", 12, [&](const std::string& file, const std::string& what) {
    ExpectToldOrHarmless(file, what);
  });
}

TEST_F(DamageTest, NoDamageOfOneIndexLosesACheckpoint) {
  for (const std::string directory : {"job", "job.copy"}) {
    DamageEverywhere(directory, 12, [&](const std::string& file, const std::string& what) {
      ExpectHarmless(file, what);
    });
  }
}

/// RocksDB takes it for the end of the log.
TEST_F(DamageTest, AWrongBitInTheIndexsLogIsNamedAndPutRight) {
  std::string log;
  for (const std::string& file : Files("job")) {
    log = file.ends_with(".log") ? file : log;
  }
  ASSERT_FALSE(log.empty());
  std::string bytes = ReadWhole(log);
  bytes[20] = static_cast<char>(bytes[20] ^ 0x10);  // of the first record
  WriteAll(log, bytes);
  {
    const auto reader = Reader::Open(*storage_, path_.path());
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_THAT((*reader)->ids(), ElementsAre(2, 3));
    for (const uint64_t id : {2U, 3U}) {
      EXPECT_THAT((*reader)->Verify(id), IsEmpty()) << "the checkpoint is whole";
      const std::vector<Damage> damages = (*reader)->VerifyIndex(id);
      ASSERT_EQ(damages.size(), 1U);
      EXPECT_THAT(std::string(damages[0].status.message()), HasSubstr("/job is damaged"));
    }
  }
  {
    const auto job = JobStore::Open(*storage_, path_.path(), OpenMode::kWrite);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_THAT((*job)->index_damage().lost, ElementsAre(2, 3));
    EXPECT_THAT(
        IndexDamageText((*job)->index_damage(), "p"),
        HasSubstr("p/job is damaged and had lost the manifests of checkpoints 2, 3; put back"));
    EXPECT_EQ((*job)->ReadRows("")->size(), 6U);
  }
  const auto reader = Reader::Open(*storage_, path_.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT((*reader)->VerifyIndex(3), IsEmpty());
  std::filesystem::remove_all(JobCopyDirectory(path_.path()));
  EXPECT_TRUE(Check(2).ok() && Check(3).ok()) << "they are where they were";
}

/// A reader skips a part of a log, and with it that checkpoints were removed.
TEST_F(DamageTest, ManifestsThatComeBackAreNamedAndNotCopied) {
  const auto put = [&](CheckpointId id) {
    const auto main = storage_->Open(JobDirectory(path_.path()), kJobColumns, OpenMode::kWrite);
    const std::string key = MakeIdKey(id);
    const Change change{
        .kind = ChangeKind::kPut, .column = kManifestColumn, .key = key, .value = {}};
    return main.ok() && (*main)->Write({&change, 1}, Durability::kSynced).ok();
  };
  const auto unmatched = [&](OpenMode mode) {
    const auto job = JobStore::Open(*storage_, path_.path(), mode);
    return job.ok() ? (*job)->index_damage().unmatched : std::vector<CheckpointId>{99};
  };
  for (const CheckpointId id : {1U, 4U}) {
    ASSERT_TRUE(put(id));
    EXPECT_THAT(unmatched(OpenMode::kRead), IsEmpty()) << "a crash came between two writes";
    EXPECT_THAT(unmatched(OpenMode::kWrite), IsEmpty());
  }
  const auto job = JobStore::Open(*storage_, path_.path(), OpenMode::kRead);
  EXPECT_THAT(*(*job)->Manifests(), ElementsAre(1, 2, 3, 4));
  {
    const auto writer = JobStore::Open(*storage_, path_.path(), OpenMode::kWrite);
    ASSERT_TRUE((*writer)->DeleteManifest(2).ok());
    ASSERT_TRUE((*writer)->DeleteManifest(1).ok());
  }
  ASSERT_TRUE(put(1) && put(2));
  for (const OpenMode mode : {OpenMode::kRead, OpenMode::kWrite, OpenMode::kRead}) {
    EXPECT_THAT(unmatched(mode), ElementsAre(1, 2));
  }
  const auto reader = Reader::Open(*storage_, path_.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->VerifyIndex(1).size(), 1U);
  EXPECT_THAT((*reader)->VerifyIndex(3), IsEmpty());
}

/// As a program does that knows no copy: it leaves the one that is there alone.
void WithoutCopy(const std::string& path, const std::function<void()>& work) {
  std::filesystem::rename(JobCopyDirectory(path), path + "/aside");
  work();
  std::filesystem::remove_all(JobCopyDirectory(path));
  std::filesystem::rename(path + "/aside", JobCopyDirectory(path));
}

TEST_F(DamageTest, WhatAnOlderProgramDroppedStaysSo) {
  WithoutCopy(path_.path(), [&] {
    Status end;
    RunWorkload(*storage_, path_.path(), 2, &end);  // drops 2 and 3, with their values
    ASSERT_TRUE(end.ok()) << end;
  });
  {
    const auto reader = Reader::Open(*storage_, path_.path());
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_THAT((*reader)->ids(), ElementsAre(4, 5));
    EXPECT_THAT((*reader)->VerifyIndex(5), IsEmpty());
  }
  {
    const auto job = JobStore::Open(*storage_, path_.path(), OpenMode::kWrite);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_THAT(*(*job)->Manifests(), ElementsAre(4, 5));
    EXPECT_THAT((*job)->index_damage().lost, IsEmpty());
    EXPECT_THAT((*job)->index_damage().dropped, ElementsAre(2, 3));
    EXPECT_THAT(
        IndexDamageText((*job)->index_damage(), "p"),
        HasSubstr("p/job.copy had manifests of checkpoints 2, 3 whose values are gone"));
    EXPECT_EQ((*job)->ReadRows("")->size(), 10U) << "those of the older program, too";
  }
  std::filesystem::remove_all(JobDirectory(path_.path()));
  const auto copy = Reader::Open(*storage_, path_.path());
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_THAT((*copy)->ids(), ElementsAre(4, 5)) << "the copy is as the index again";
}

/// It was ended before it dropped the values: the checkpoint is whole, and rows are the newer ones.
TEST_F(DamageTest, WhatAnOlderProgramDroppedByHalfIsWhole) {
  WithoutCopy(path_.path(), [&] {
    const auto main = storage_->Open(JobDirectory(path_.path()), kJobColumns, OpenMode::kWrite);
    ASSERT_TRUE(main.ok()) << main.status();
    const std::string key = MakeIdKey(2);
    const std::string row = "newer";
    const std::vector<Change> changes = {
        {.kind = ChangeKind::kErase, .column = kManifestColumn, .key = key, .value = {}},
        {.kind = ChangeKind::kPut, .column = kRowColumn, .key = row, .value = {}}};
    ASSERT_TRUE((*main)->Write(changes, Durability::kSynced).ok());
  });
  const auto job = JobStore::Open(*storage_, path_.path(), OpenMode::kWrite);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(*(*job)->Manifests(), ElementsAre(2, 3));
  EXPECT_EQ((*job)->ReadRows("newer")->size(), 1U);
  EXPECT_TRUE(Check(2).ok()) << Check(2);
}

/// Nothing goes for values that can't be looked at.
TEST_F(DamageTest, AManifestOfTheCopyStaysWhileItsShardIsOutOfReach) {
  std::filesystem::remove_all(JobDirectory(path_.path()));
  std::filesystem::rename(path_.path() + "/shard-0", path_.path() + "/unmounted");
  {
    const auto job = JobStore::Open(*storage_, path_.path(), OpenMode::kWrite);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_THAT(*(*job)->Manifests(), ElementsAre(2, 3));
  }
  std::filesystem::rename(path_.path() + "/unmounted", path_.path() + "/shard-0");
  EXPECT_TRUE(Check(2).ok() && Check(3).ok());
}

/// Checkpoints of a program that kept no copy.
TEST_F(DamageTest, AnIndexWithoutACopyGetsOne) {
  std::filesystem::remove_all(JobCopyDirectory(path_.path()));
  const auto reader = Reader::Open(*storage_, path_.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT((*reader)->VerifyIndex(3), IsEmpty());
  EXPECT_TRUE(JobStore::Open(*storage_, path_.path(), OpenMode::kWrite).ok());
  std::filesystem::remove_all(JobDirectory(path_.path()));
  EXPECT_TRUE(Check(2).ok() && Check(3).ok());
}

TEST_F(DamageTest, ARunGoesOnWithTheCopyOfADamagedIndex) {
  WriteAll(JobDirectory(path_.path()) + "/CURRENT", "");
  const auto job = JobStore::Open(*storage_, path_.path(), OpenMode::kWrite);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->index_damage().broken.code(), StatusCode::kCorruption);
  EXPECT_EQ(
      JobStore::Open(*storage_, path_.path(), OpenMode::kWrite).status().code(),
      StatusCode::kUnavailable)
      << "it is the lock, too";
  ASSERT_TRUE((*job)->PutManifest(4, *(*job)->ReadManifest(3)).ok());
  ASSERT_TRUE((*job)->DeleteManifest(2).ok());
  const auto reader = Reader::Open(*storage_, path_.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT((*reader)->ids(), ElementsAre(3, 4));
}

/// No run takes a path whose only index is damaged for one without checkpoints.
TEST_F(DamageTest, OfTwoDamagedIndexesNoneIsWritten) {
  for (const std::string directory : {"job", "job.copy"}) {
    for (const std::string& file : Files(directory)) {
      if (file.ends_with("CURRENT")) {
        WriteAll(file, "");
      }
    }
  }
  const auto job = JobStore::Open(*storage_, path_.path(), OpenMode::kWrite);
  EXPECT_EQ(job.status().code(), StatusCode::kCorruption) << job.status();
}

TEST_F(DamageTest, AWrongBitInAChunkIsNamedAndTheOtherCheckpointIsWhole) {
  // The newest large chunk of checkpoint 3 alone is in the file that was written last.
  std::string newest;
  for (const std::string& file : Files("shard-0")) {
    if (file.ends_with(".blob") && file > newest) {
      newest = file;
    }
  }
  ASSERT_FALSE(newest.empty());
  std::string bytes = ReadWhole(newest);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  WriteAll(newest, bytes);
  const Status status = Check(3);
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(std::string(status.message()), HasSubstr("in checkpoint 3"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("chunk 0 of tensor "));
  EXPECT_TRUE(Check(2).ok()) << Check(2);
}

TEST_F(DamageTest, ATableThatIsNotNeededHidesNothingFromAReader) {
  int needed_by_the_older_alone = 0;
  for (const std::string& file : Files("shard-0")) {
    if (!file.ends_with(".sst")) {
      continue;
    }
    const std::string whole = ReadWhole(file);
    std::string damaged = whole;
    for (size_t i = damaged.size() - 20; i < damaged.size(); ++i) {  // of the footer
      damaged[i] = static_cast<char>(~damaged[i]);
    }
    WriteAll(file, damaged);
    needed_by_the_older_alone += !Check(2).ok() && Check(3).ok() ? 1 : 0;
    WriteAll(file, whole);
  }
  EXPECT_GT(needed_by_the_older_alone, 0);
}

/// The file of the program or library that a symbol is found in.
std::string HomeOf(const void* address) {
  Dl_info info = {};
  return ::dladdr(address, &info) != 0 ? info.dli_fname : "nowhere";
}

TEST(ChecksumTest, OfRocksDbIsComputedByOurFunction) {
  // As the loader resolves rocksdb::crc32c::Extend(uint32_t, const char*, size_t) for RocksDB.
  void* const extend = ::dlsym(RTLD_DEFAULT, "_ZN7rocksdb6crc32c6ExtendEjPKcm");
  ASSERT_NE(extend, nullptr);
  EXPECT_EQ(HomeOf(extend), HomeOf(reinterpret_cast<const void*>(&HomeOf)));
}

}  // namespace
}  // namespace ps::checkpoint
