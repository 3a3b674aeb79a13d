#include "ps/server/checkpoints/disk_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "tests/checkpoint/memory_storage.h"

namespace ps::server {
namespace {

using checkpoint::MemoryStorage;

/// A disk that stands still, if it is asked to, when a shard's store is opened.
class DiskThreadTest : public testing::Test {
 protected:
  DiskThreadTest() {
    auto storage = std::make_shared<MemoryStorage>();
    storage->SetFaultHook([this](checkpoint::Operation operation, const std::string&) {
      if (is_to_hang_ && operation == checkpoint::Operation::kOpen && !is_hanging_.exchange(true)) {
        hangs_.set_value();
        goes_on_.get_future().wait();
      }
      return Status::Ok();
    });
    storage_ = storage;
    disk_ = std::make_unique<DiskThread>(
        std::move(storage),
        ShardId(0),
        &loop_,
        DiskThread::Answers{.chunk = {}, .part = {}, .restored = [this](const Restored&) {
                              ++answers_;
                              loop_.Stop();
                            }});
    disk_->Use({"/path", {}, 0});
  }

  net::Loop loop_;
  std::atomic<bool> is_to_hang_ = false;
  std::atomic<bool> is_hanging_ = false;
  std::promise<void> hangs_;
  std::promise<void> goes_on_;
  int answers_ = 0;
  std::weak_ptr<MemoryStorage> storage_;
  std::unique_ptr<DiskThread> disk_;
};

TEST_F(DiskThreadTest, AnswersComeOnTheLoop) {
  disk_->Restore({1, 1, 1, {MakeChunkKey(0, 0)}});
  loop_.Run();
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(disk_->EndWithin(std::chrono::hours(1)));
  EXPECT_TRUE(storage_.expired()) << "nothing is open any more";
}

TEST_F(DiskThreadTest, ADiskThatHangsHoldsUpNobodyAndKeepsWhatItHasOpen) {
  is_to_hang_ = true;
  disk_->Restore({1, 1, 1, {MakeChunkKey(0, 0)}});
  hangs_.get_future().wait();
  EXPECT_FALSE(disk_->EndWithin(std::chrono::milliseconds(1)));
  disk_.reset();
  EXPECT_FALSE(storage_.expired());
  goes_on_.set_value();
  while (!storage_.expired()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(answers_, 0) << "there is nobody who could take the answer";
}

}  // namespace
}  // namespace ps::server
