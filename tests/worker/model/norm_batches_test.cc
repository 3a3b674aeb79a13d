#include "worker/model/norm_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/model/model_builder.h"
#include "worker/model/division.h"

namespace ps::worker::test {
namespace {

using testing::HasSubstr;

Model Normed(const Shape& input, Layers layers) {
  proto::ModelConfig config;
  config.layers = std::move(layers);
  return MakeModel(config, input, 10).value();
}

TEST(NormBatchesTest, ABatchNormOverFlatFeaturesNeedsTwoSamplesInEachPiece) {
  const Model flat = Normed({8, 1, 1}, {Linear(4), BatchNorm(0.1F), Linear(10)});
  EXPECT_EQ(LeastTrainBatch(flat), 2);
  EXPECT_EQ(LeastTrainBatch(Normed({8, 1, 1}, {Linear(10)})), 1);
  const Layers pooled = {Conv2d(4, 3), BatchNorm(0.1F), GlobalAvgPool(), Linear(10)};
  EXPECT_EQ(LeastTrainBatch(Normed({1, 8, 8}, pooled)), 1) << "64 values a channel";
  proto::JobConfig config;
  EXPECT_TRUE(CheckTrainBatches(config, flat).ok());
  config.train.micro_batch = 2;
  EXPECT_THAT(
      CheckTrainBatches(config, flat).ToString(),
      HasSubstr("train.micro_batch is 2, and a batch_norm of this model gets one value a channel"));
  config.train.micro_batch = 0;
  config.workers = {proto::WorkerGroup{}, proto::WorkerGroup{}};
  config.workers[0].minibatch = 8;
  config.workers[1].minibatch = 1;
  EXPECT_THAT(CheckTrainBatches(config, flat).ToString(), HasSubstr("workers[1].minibatch is 1"));
  config.train.minibatch = 1;
  config.workers[1].minibatch = 2;
  EXPECT_TRUE(CheckTrainBatches(config, flat).ok()) << "no worker has train.minibatch";
  config.workers.pop_back();
  config.workers[0].minibatch = 0;
  EXPECT_THAT(CheckTrainBatches(config, flat).ToString(), HasSubstr("train.minibatch is 1"));
}

TEST(NormBatchesTest, NoPieceOfADivisionHasOneSampleWherePairsAreAsked) {
  for (int64_t n = 2; n <= 40; ++n) {
    for (size_t devices = 1; devices <= 5; ++devices) {
      for (int64_t piece_max = 0; piece_max <= 9; piece_max = piece_max == 0 ? 3 : piece_max + 1) {
        const Division division = Division::Of(n, devices, piece_max, true);
        ASSERT_LE(division.devices(), devices);
        int64_t covered = 0;
        int64_t next = 0;
        for (size_t device = 0; device < division.devices(); ++device) {
          for (int64_t offset = 0; offset < division.share; offset += division.piece) {
            const PieceRange range = division.RangeOf(device, offset);
            const int64_t size = range.end - range.begin;
            covered += size;
            ASSERT_NE(size, 1) << n << " " << devices << " " << piece_max;
            EXPECT_TRUE(size == 0 || range.begin == next);
            next = size == 0 ? next : range.end;
            EXPECT_TRUE(piece_max == 0 || size <= piece_max);
          }
        }
        EXPECT_EQ(covered, n);
      }
    }
  }
}

}  // namespace
}  // namespace ps::worker::test
