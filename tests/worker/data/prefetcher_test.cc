#include "worker/data/prefetcher.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ps::worker::test
