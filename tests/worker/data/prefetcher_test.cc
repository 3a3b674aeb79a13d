#include "worker/data/prefetcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/worker/data/data_files.h"

namespace ps::worker::test {
namespace {

constexpr uint64_t kSeed = 5;
constexpr uint64_t kCount = 40;

/// A data set of 40 pictures, and a prefetcher of it.
class PrefetcherTest : public ::testing::Test {
 protected:
  static Dataset LoadSet(const DataFolder& folder) {
    WriteIdxSet(folder, kCount, 7);
    proto::DataConfig config;
    config.directory = folder.path();
    config.augment = {1, true};
    return Dataset::Load(config).value();
  }

  /// Whether a batch as it was taken is what a plain fetch gives.
  void ExpectTaken(const BatchId& batch) {
    const Result<BatchMemory> taken = prefetcher_.Take(batch);
    ASSERT_TRUE(taken.ok()) << taken.status();
    std::vector<float> images(batch.count() * 6);
    std::vector<uint32_t> labels(batch.count());
    const EpochOrder order(kSeed, batch.epoch, kCount);
    ASSERT_TRUE(dataset_.FetchTrain(order, batch.range, {images, labels}).ok());
    EXPECT_EQ(std::vector<float>(taken->images.begin(), taken->images.end()), images);
    EXPECT_EQ(std::vector<uint32_t>(taken->labels.begin(), taken->labels.end()), labels);
  }

  const DataFolder folder_;
  const Dataset dataset_ = LoadSet(folder_);
  std::vector<std::byte> memory_[2];
  Prefetcher prefetcher_{&dataset_, kSeed, BatchForm::kValues, [this](int slot, size_t size_bytes) {
                           memory_[slot].resize(size_bytes);
                           return Result<std::byte*>(memory_[slot].data());
                         }};
};

TEST_F(PrefetcherTest, WhatWasForeseenIsWhatAFetchGives) {
  BatchId batch{0, {0, 4}};
  // The thread has to win a race, which it does after a few turns.
  for (int turn = 0; turn < 100000 && prefetcher_.figures().foreseen < 20; ++turn) {
    BatchId next{batch.epoch, {batch.range.end, batch.range.end + 4}};
    if (next.range.end > kCount) {
      next = {batch.epoch + 1, {0, 4}};
    }
    prefetcher_.Foresee(next);
    ExpectTaken(batch);
    batch = next;
  }
  EXPECT_GE(prefetcher_.figures().foreseen, 20U);
  EXPECT_GT(prefetcher_.figures().batches, prefetcher_.figures().foreseen) << "the first one";
}

TEST_F(PrefetcherTest, WhatWasForeseenAndDoesNotComeChangesNothing) {
  for (uint32_t epoch = 0; epoch < 200; ++epoch) {
    prefetcher_.Foresee({epoch, {8, 12}});
    ExpectTaken({epoch, {20, 24}});
    prefetcher_.Foresee({epoch, {12, 16}});
    prefetcher_.Foresee({epoch, {16, 20}});
    ExpectTaken({epoch, {12, 15}});
    ExpectTaken({epoch, {8, 12}});
    ExpectTaken({epoch, {16, 20}});
  }
}

TEST_F(PrefetcherTest, ABatchMayBeLargerThanThoseBefore) {
  for (uint64_t size = 1; size <= kCount; ++size) {
    prefetcher_.Foresee({1, {0, size}});
    ExpectTaken({0, {0, size}});
    prefetcher_.Foresee({2, {0, size / 2}});
    ExpectTaken({1, {0, size}});
  }
}

TEST_F(PrefetcherTest, SamplesThatAreNotThereAreAnErrorWhenTheyAreTaken) {
  ExpectTaken({0, {0, 4}});
  prefetcher_.Foresee({0, {38, 42}});
  EXPECT_EQ(prefetcher_.Take({0, {38, 42}}).status().code(), StatusCode::kInvalidArgument);
  ExpectTaken({0, {36, 40}});
}

/// Fetches a batch of one label when the test lets it.
class GatedSource {
 public:
  Status Fetch(const BatchId& batch, const BatchMemory& memory) {
    std::unique_lock lock(mutex_);
    const uint64_t number = batch.range.begin;
    ++calls_[number];
    callers_[number] = std::this_thread::get_id();
    changed_.notify_all();
    if (!Await(&lock, [&] { return open_until_ > number; })) {
      return Status::Unavailable("the gate stayed shut");
    }
    memory.labels[0] = static_cast<uint32_t>(number);
    ++done_;
    changed_.notify_all();
    return Status::Ok();
  }

  /// Batches below `until` may pass.
  void Open(uint64_t until) {
    const std::lock_guard lock(mutex_);
    open_until_ = until;
    changed_.notify_all();
  }

  bool WaitForCall(uint64_t number) {
    std::unique_lock lock(mutex_);
    return Await(&lock, [&] { return calls_.contains(number); });
  }

  bool WaitForDone(int count) {
    std::unique_lock lock(mutex_);
    return Await(&lock, [&] { return done_ >= count; });
  }

  // Once no fetch is under way.
  int calls(uint64_t number) const { return calls_.at(number); }

  std::thread::id caller(uint64_t number) const { return callers_.at(number); }

 private:
  template <typename Condition>
  bool Await(std::unique_lock<std::mutex>* lock, Condition condition) {
    return changed_.wait_for(*lock, std::chrono::seconds(30), condition);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, int> calls_;
  std::map<uint64_t, std::thread::id> callers_;
  uint64_t open_until_ = 0;
  int done_ = 0;
};

class SlowSourceTest : public ::testing::Test {
 protected:
  static BatchId Number(uint64_t number) { return {0, {number, number + 1}}; }

  void ExpectTaken(uint64_t number) {
    const Result<BatchMemory> taken = prefetcher_.Take(Number(number));
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(taken->labels[0], number);
  }

  GatedSource source_;
  std::vector<std::byte> memory_[2];
  Prefetcher prefetcher_{
      BatchLayout({.shape = {1, 1, 1}, .labels = 1}, BatchForm::kValues, nullptr),
      [this](const BatchId& batch, const BatchMemory& memory) {
        return source_.Fetch(batch, memory);
      },
      [this](int slot, size_t size_bytes) {
        memory_[slot].resize(size_bytes);
        return Result<std::byte*>(memory_[slot].data());
      }};
};

TEST_F(SlowSourceTest, AStepHasItsSamplesWhileThoseOfTheNextAreStillFetched) {
  source_.Open(2);
  prefetcher_.Foresee(Number(2));
  ExpectTaken(1);
  ASSERT_TRUE(source_.WaitForCall(2)) << "it is on its way while the step computes";
  EXPECT_EQ(prefetcher_.figures().foreseen, 0U);
  source_.Open(3);
  ExpectTaken(2);
  EXPECT_EQ(prefetcher_.figures().foreseen, 1U);
  EXPECT_EQ(source_.calls(2), 1) << "waited for, not fetched again";
}

/// Each step here is as long as its successor's fetch. That a step fetches nothing itself and finds
/// it done is what "does not wait" means without a clock.
TEST_F(SlowSourceTest, StepsThatAreLongerThanFetchesNeverFetchThemselves) {
  constexpr uint64_t kSteps = 20;
  source_.Open(1);
  for (uint64_t i = 0; i < kSteps; ++i) {
    prefetcher_.Foresee(Number(i + 1));
    ExpectTaken(i);
    ASSERT_TRUE(source_.WaitForCall(i + 1)) << "its fetch begins with this step";
    source_.Open(i + 2);
    ASSERT_TRUE(source_.WaitForDone(static_cast<int>(i) + 2)) << "and ends within it";
  }
  EXPECT_EQ(prefetcher_.figures().foreseen, kSteps - 1);
  for (uint64_t i = 1; i < kSteps; ++i) {
    EXPECT_EQ(source_.calls(i), 1) << i;
    EXPECT_NE(source_.caller(i), std::this_thread::get_id()) << i;
  }
}

}  // namespace
}  // namespace ps::worker::test
