// Checkpoints of a path to an object store and back: what is sent, what is left by a copy that is
// cut off, what is done about damage.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/job_store.h"
#include "checkpoint/reader.h"
#include "checkpoint/remote/copier.h"
#include "checkpoint/remote/directory_store.h"
#include "checkpoint/remote/links.h"
#include "checkpoint/shard_store.h"
#include "tests/base/sync_record.h"
#include "tests/checkpoint/remote/copy_fixture.h"
#include "tests/store/s3_under_test.h"

namespace ps::checkpoint {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(CopyTest, WhatWasCopiedIsRestoredOnAnEmptyMachineAndGoesOn) {
  const auto copied = Upload();
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_THAT(copied->copied, ElementsAre(1, 2));
  EXPECT_THAT(copied->present, IsEmpty());
  EXPECT_GT(copied->sent_bytes, 0U);
  std::filesystem::remove_all(path_);

  const auto fetched = Fetch("q");
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->id, 2U);
  EXPECT_EQ(fetched->newest, 2U);
  EXPECT_THAT(fetched->skipped, IsEmpty());
  EXPECT_TRUE(CheckCheckpoint(*storage_, PathOf("q"), 2).ok());
  TrainIn(PathOf("q"), 1);
  EXPECT_TRUE(CheckCheckpoint(*storage_, PathOf("q"), 3).ok());
  const auto more = UploadFrom(PathOf("q"));
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_THAT(more->copied, ElementsAre(3));
  EXPECT_THAT(more->present, ElementsAre(1, 2));
}

TEST_F(CopyTest, ALaterCopySendsOnlyFilesThatAreNew) {
  Uploader uploader(path_, &store_, {.writer = "test", .keep = 0, .on_progress = nullptr});
  const auto first = uploader.Run();
  ASSERT_TRUE(first.ok()) << first.status();
  Train(1);
  const auto second = uploader.Run();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(second->copied, ElementsAre(3));
  EXPECT_GT(second->shared_bytes, 0U);
  const int puts = store_.puts();
  const auto third = uploader.Run();
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_THAT(third->copied, IsEmpty());
  EXPECT_EQ(store_.puts(), puts);
  // Another process, which knows nothing of the first one's copies, sends nothing twice either.
  Train(1);
  const size_t objects = store_.objects().size();
  const auto other = Upload();
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_GT(other->shared_bytes, 0U);
  EXPECT_EQ(
      static_cast<size_t>(store_.puts() - puts), store_.objects().size() - objects + 1);  // writer
}

TEST_F(CopyTest, AnIndexIsWrittenAfterAllThatItNames) {
  store_.OnChange([this](std::string_view) { ExpectIndexesAreComplete(); });
  ASSERT_TRUE(Upload(1).ok());
  Train(2);
  ASSERT_TRUE(Upload(1).ok());
  ExpectIndexesAreComplete();
}

TEST_F(CopyTest, ACopyThatIsCutOffAnywhereLeavesWholeOnesAndIsResumed) {
  ASSERT_TRUE(Upload(1).ok());
  Train(2);
  const std::map<std::string, std::vector<std::byte>> before = store_.objects();
  const int first_call = store_.calls();
  ASSERT_TRUE(Upload(1).ok());
  const int calls = store_.calls() - first_call;
  ASSERT_GT(calls, 10);
  const int first_put = store_.puts();
  for (int n = 0; n < calls; ++n) {
    store_.objects() = before;
    store_.FailAfter(n);
    const auto cut_off = Upload(1);
    // The last two calls leave the place.
    EXPECT_TRUE(cut_off.status().code() == StatusCode::kUnavailable || n >= calls - 2) << n;
    store_.Heal();
    ExpectIndexesAreComplete();
    ASSERT_FALSE(Copies().empty()) << n;
    EXPECT_THAT(VerifyCopy(store_, Copies().back()), IsEmpty()) << n;
    const auto resumed = Upload(1);
    ASSERT_TRUE(resumed.ok()) << n << ": " << resumed.status();
    EXPECT_EQ(Copies().back(), 4U) << n;
  }
  EXPECT_GT(store_.puts(), first_put);
}

TEST_F(CopyTest, OldCopiesGoWithWhatTheyAloneHad) {
  ASSERT_TRUE(Upload().ok());
  const std::set<std::string> before = PiecesOf(2);
  Train(2);
  const auto copied = Upload(1);
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_THAT(copied->copied, ElementsAre(3, 4));
  EXPECT_THAT(copied->removed, ElementsAre(1, 2, 3));
  EXPECT_THAT(copied->present, IsEmpty());
  EXPECT_THAT(Copies(), ElementsAre(4));
  const std::vector<store::ObjectInfo> pieces = *store_.List(kPiecePrefix);
  std::set<std::string> there;
  for (const store::ObjectInfo& object : pieces) {
    there.insert(object.key);
  }
  EXPECT_EQ(there, PiecesOf(4));
  EXPECT_THAT(VerifyCopy(store_, 4), IsEmpty());
}

TEST_F(CopyTest, CopiesOfSomethingElseAreRefused) {
  ASSERT_TRUE(Upload().ok());
  const std::vector<std::byte> own = store_.objects()[IndexKey(2)];
  CopyIndex index = *DecodeIndex(2, own);
  index.manifest.back() ^= std::byte{1};
  store_.objects()[IndexKey(2)] = EncodeIndex(index);
  const Status other = Upload().status();
  store_.objects()[IndexKey(2)] = own;
  EXPECT_EQ(other.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()), HasSubstr("has another checkpoint 2 than"));
  TrainIn(PathOf("young"), 1);
  const Status young = UploadFrom(PathOf("young")).status();
  EXPECT_EQ(young.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(young.message()), HasSubstr("has checkpoint 2, "));
  EXPECT_EQ(UploadFrom(PathOf("none")).status().code(), StatusCode::kNotFound);
}

TEST_F(CopyTest, DamageAndLossAreFoundAndAnOlderCopyIsTaken) {
  ASSERT_TRUE(Upload().ok());
  Train(1);
  ASSERT_TRUE(Upload().ok());
  const std::string key = PieceOnlyOf(3, 2);
  const std::vector<std::byte> whole = store_.objects()[key];

  store_.objects()[key][whole.size() / 2] ^= std::byte{1};
  ASSERT_THAT(VerifyCopy(store_, 3), SizeIs(1));
  EXPECT_THAT(VerifyCopy(store_, 3)[0].what, HasSubstr("shard-0/"));
  EXPECT_THAT(VerifyCopy(store_, 2), IsEmpty());
  const auto flipped = Fetch("flipped");
  ASSERT_TRUE(flipped.ok()) << flipped.status();
  EXPECT_EQ(flipped->id, 2U);
  EXPECT_EQ(flipped->newest, 3U);
  ASSERT_THAT(flipped->skipped, SizeIs(1));
  EXPECT_THAT(flipped->skipped[0], HasSubstr("has other bytes than its name says"));
  EXPECT_TRUE(CheckCheckpoint(*storage_, PathOf("flipped"), 2).ok());

  store_.objects()[key].pop_back();
  EXPECT_EQ(Fetch("short")->id, 2U);
  store_.objects().erase(key);
  EXPECT_EQ(Fetch("missing")->id, 2U);
  store_.objects()[key] = whole;
  EXPECT_EQ(Fetch("whole")->id, 3U);
  store_.objects()[IndexKey(3)].back() ^= std::byte{1};
  EXPECT_EQ(Fetch("index")->id, 2U);
  store_.objects().erase(IndexKey(2));
  store_.objects().erase(IndexKey(1));
  const Status none = Fetch("none").status();
  EXPECT_EQ(none.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("is whole:\n  checkpoint 3: "));
}

TEST_F(CopyTest, AFetchThatIsCutOffAnywhereGoesOn) {
  ASSERT_TRUE(Upload().ok());
  const int first_call = store_.calls();
  const auto whole = Fetch("q");
  ASSERT_TRUE(whole.ok()) << whole.status();
  const uint64_t bytes = whole->received_bytes;
  const int calls = store_.calls() - first_call;
  ASSERT_GT(calls, 4);
  uint64_t present = 0;
  for (int n = 1; n < calls; ++n) {
    const std::string name = "q" + std::to_string(n);
    store_.FailAfter(n);
    EXPECT_EQ(Fetch(name).status().code(), StatusCode::kUnavailable) << n;
    store_.Heal();
    const auto fetched = Fetch(name);
    ASSERT_TRUE(fetched.ok()) << n << ": " << fetched.status();
    EXPECT_EQ(fetched->received_bytes + fetched->present_bytes, bytes) << n;
    EXPECT_GE(fetched->present_bytes, present) << n;
    present = fetched->present_bytes;
    EXPECT_TRUE(CheckCheckpoint(*storage_, PathOf(name), 2).ok()) << n;
  }
  EXPECT_GT(present, bytes / 2);
}

/// After a power failure a file is there if it was synced, and the folder that has its name, too.
TEST_F(CopyTest, WhatIsFetchedIsSyncedAndSoIsEveryFolderWithANewName) {
  ASSERT_TRUE(Upload().ok());
  ForgetSynced();
  ASSERT_TRUE(Fetch("new/q").ok());
  const std::vector<std::string> synced = Synced();
  const auto last = [&](const std::string& path) {
    return std::ranges::find(synced.rbegin(), synced.rend(), path).base() - synced.begin();
  };
  const std::string path = PathOf("new/q");
  const CopyIndex index = *DecodeIndex(2, store_.objects().at(IndexKey(2)));
  ASSERT_THAT(index.databases, SizeIs(1));
  const std::string folder = path + "/" + index.databases[0].directory;
  ASSERT_THAT(index.databases[0].files, Not(IsEmpty()));
  for (const CopiedFile& file : index.databases[0].files) {
    EXPECT_GT(last(folder + "/" + file.name), 0) << file.name;
    EXPECT_GT(last(folder), last(folder + "/" + file.name)) << file.name;
  }
  EXPECT_THAT(synced, Contains(folder_.path())) << "new";
  EXPECT_THAT(synced, Contains(PathOf("new"))) << "q";
  const std::vector<std::string> databases = *storage_->List(path);
  EXPECT_THAT(databases, Contains(index.databases[0].directory));
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(synced, path)), databases.size());
}

TEST_F(CopyTest, WhereCheckpointsAreNothingIsFetched) {
  ASSERT_TRUE(Upload().ok());
  const Status fetched = Fetch("p").status();
  EXPECT_EQ(fetched.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(fetched.message()), HasSubstr("has checkpoints already, the newest is 2"));
}

TEST_F(CopyTest, ARunThatWritesDoesNotStandInTheWay) {
  const auto job = JobStore::Open(*storage_, path_, OpenMode::kWrite);
  const auto shard = ShardStore::Open(*storage_, path_, ShardId(0), OpenMode::kWrite);
  ASSERT_TRUE(job.ok() && shard.ok());
  const auto copied = Upload();
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_EQ(Fetch("q")->id, 2U);
}

TEST_F(CopyTest, LinksAreLeftByNobody) {
  ProcessIdentity gone = ThisProcess();
  gone.pid = 999'999'999;
  std::filesystem::create_directories(path_ + "/" + Links::NameOf(gone, 1) + "/shard-0");
  ASSERT_TRUE(Upload().ok());
  EXPECT_THAT(*storage_->List(path_), ElementsAre("job", "job.copy", "shard-0"));
}

/// What a copier has said, for the test's thread.
class Told {
 public:
  void Tell(const CopyState& state) {
    const std::lock_guard lock(mutex_);
    states_.push_back(state);
    wake_.notify_all();
  }

  /// Waits for the n-th attempt.
  CopyState Wait(size_t n) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return states_.size() >= n; });
    return states_[n - 1];
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<CopyState> states_;
};

TEST_F(CopyTest, ACopierMakesGoodWhatFailed) {
  const std::string place = PathOf("place");
  std::ofstream(place) << "a file where a folder is wanted";
  Told told;
  Copier copier(
      {.path = path_,
       .writer = "test",
       .keep = 1,
       .open = [&](store::Pause, IsCancelled) -> Result<std::unique_ptr<store::ObjectStore>> {
         return MakeDirectoryStore(place);
       },
       .told = [&](const CopyState& state) { told.Tell(state); }});
  copier.Poke();
  const CopyState failed = told.Wait(1);
  EXPECT_EQ(failed.failed, 1U);
  EXPECT_EQ(failed.copied, 0U);
  EXPECT_THAT(failed.trouble, HasSubstr("cannot read " + place));
  std::filesystem::remove(place);
  copier.Poke();
  const CopyState copied = told.Wait(2);
  EXPECT_EQ(copied.failed, 1U);
  EXPECT_EQ(copied.copied, 2U);
  EXPECT_EQ(copied.newest, 2U);
  EXPECT_EQ(copied.trouble, "");
  EXPECT_GT(copied.sent_bytes, 0U);
  Train(1);
  copier.Poke();
  EXPECT_EQ(told.Wait(3).newest, 3U);
  const auto store = MakeDirectoryStore(place);
  EXPECT_THAT(*ListCopies(*store), ElementsAre(3));
}

TEST_F(CopyTest, ACopierThatEndsLeavesWhatTheNextOneGoesOnWith) {
  if (store::TestServer().port() == 0) {
    GTEST_SKIP() << "no server: " << store::TestServer().why() << "; is python3 installed?";
  }
  Told told;
  {
    Copier copier(
        {.path = path_,
         .writer = "test",
         .keep = 1,
         .open = [&](store::Pause pause,
                     IsCancelled is_cancelled) -> Result<std::unique_ptr<store::ObjectStore>> {
           store::S3Variation variation;
           variation.pause = std::move(pause);
           variation.is_cancelled = std::move(is_cancelled);
           return store::TestServer().Open("silent", "x", std::move(variation));
         },
         .told = [&](const CopyState& state) { told.Tell(state); }});
    copier.Poke();
    copier.Poke();
    EXPECT_FALSE(copier.is_idle());
  }
  EXPECT_THAT(*storage_->List(path_), ElementsAre("job", "job.copy", "shard-0"));
}

/// As a mounted folder whose server is gone.
TEST_F(CopyTest, APlaceThatHangsHoldsUpNobody) {
  std::promise<void> hangs;
  std::promise<void> goes_on;
  std::promise<void> gone;
  {
    Copier copier(
        {.path = path_,
         .writer = "test",
         .keep = 1,
         .open = [&](store::Pause pause,
                     IsCancelled is_cancelled) -> Result<std::unique_ptr<store::ObjectStore>> {
           hangs.set_value();
           goes_on.get_future().wait();
           EXPECT_TRUE(is_cancelled());
           EXPECT_FALSE(pause(std::chrono::hours(1)));
           gone.set_value();
           return Status::Unavailable("it is back, and nobody waits");
         },
         .told = [](const CopyState&) { FAIL() << "nobody is there to be told"; }});
    copier.Poke();
    hangs.get_future().wait();
    EXPECT_FALSE(copier.EndWithin(std::chrono::milliseconds(1)));
  }
  goes_on.set_value();
  gone.get_future().wait();
}

TEST_F(CopyTest, ACheckpointTravelsThroughS3) {
  if (store::TestServer().port() == 0) {
    GTEST_SKIP() << "no server: " << store::TestServer().why() << "; is python3 installed?";
  }
  const auto store = store::TestServer().Open("good", "travel");
  Uploader uploader(path_, store.get(), {.writer = "test", .keep = 1, .on_progress = nullptr});
  const auto copied = uploader.Run();
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_THAT(VerifyCopy(*store, 2), IsEmpty());
  const auto fetched = Download(*store, *storage_, PathOf("q"), nullptr);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_TRUE(CheckCheckpoint(*storage_, PathOf("q"), 2).ok());
}

}  // namespace
}  // namespace ps::checkpoint
