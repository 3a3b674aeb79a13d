#include "ps/coordinator/checkpoints/job_disk.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "tests/checkpoint/memory_storage.h"

namespace ps::coordinator {
namespace {

using checkpoint::JobStore;
using checkpoint::MemoryStorage;
using checkpoint::OpenMode;

/// A disk that stands still once it is asked to write, until it is let go on.
class JobDiskTest : public testing::Test {
 protected:
  JobDiskTest() {
    auto store = JobStore::Open(storage_, "/path", OpenMode::kWrite);
    PS_CHECK(store.ok()) << store.status();
    std::shared_ptr<JobStore> owned = std::move(store).value();
    store_ = owned;
    disk_ = std::make_unique<JobDisk>(
        std::move(owned),
        JobDisk::Answers{
            .written = [this](uint64_t, const Status&) { return ++answers_ > 0; }, .read = {}});
  }

  void Hang() {
    storage_.SetFaultHook([this](checkpoint::Operation operation, const std::string&) {
      if (operation == checkpoint::Operation::kWrite && !is_hanging_.exchange(true)) {
        hangs_.set_value();
        goes_on_.get_future().wait();
      }
      return Status::Ok();
    });
  }

  void Commit(uint64_t checkpoint) {
    ManifestWrite write;
    write.checkpoint = checkpoint;
    disk_->Commit(std::move(write));
  }

  MemoryStorage storage_;
  std::atomic<bool> is_hanging_ = false;
  std::promise<void> hangs_;
  std::promise<void> goes_on_;
  std::atomic<int> answers_ = 0;
  std::weak_ptr<JobStore> store_;
  std::unique_ptr<JobDisk> disk_;
};

TEST_F(JobDiskTest, ItsEndClosesTheStore) {
  Commit(1);
  while (answers_ == 0) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(disk_->EndWithin(std::chrono::hours(1)));
  EXPECT_TRUE(store_.expired());
  EXPECT_TRUE(JobStore::Open(storage_, "/path", OpenMode::kWrite).ok()) << "the lock is free";
}

TEST_F(JobDiskTest, ADiskThatHangsHoldsUpNobodyAndKeepsItsStore) {
  Hang();
  Commit(1);
  hangs_.get_future().wait();
  EXPECT_FALSE(disk_->EndWithin(std::chrono::milliseconds(1)));
  disk_.reset();
  EXPECT_FALSE(store_.expired());
  EXPECT_EQ(
      JobStore::Open(storage_, "/path", OpenMode::kWrite).status().code(),
      StatusCode::kUnavailable);
  goes_on_.set_value();
  while (!store_.expired()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(answers_, 0) << "there is nobody who could take the answer";
  const auto job = JobStore::Open(storage_, "/path", OpenMode::kRead);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->Manifests()->size(), 1U) << "what was being written is written";
}

}  // namespace
}  // namespace ps::coordinator
