#include "ps/server/chunks/chunk_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

/// The rig's job.
struct Job {
  ShardSettings settings = ShardRig().settings;
  proto::ShardSetup setup = ShardRig().setup;

  Result<ChunkStore> MakeStore() const { return ChunkStore::Make(kShard, settings, setup); }
};

Job JobOf(proto::OptimizerKind kind) {
  Job job;
  job.settings.optimizer.kind = kind;
  job.settings.optimizer.lr = 0.1F;
  return job;
}

std::vector<float> AfterTwoUpdates(const Job& job) {
  Result<ChunkStore> store = job.MakeStore();
  EXPECT_TRUE(store.ok()) << store.status();
  std::vector<float> values;
  for (const float g : {0.5F, 0.25F}) {
    const std::vector<float> gradient(2, g);
    store->ApplyParts(
        0, std::vector{std::span<const float>(gradient)}, {job.settings.optimizer.lr});
    store->FinishUpdate(0);
    values.push_back(store->ValuesOf(0)[1]);
  }
  EXPECT_EQ(store->chunks()[0].version, 2U);
  EXPECT_EQ(store->chunks()[1].version, 0U);
  return values;
}

void ExpectValues(const Job& job, float after_one, float after_two) {
  const std::vector<float> values = AfterTwoUpdates(job);
  EXPECT_NEAR(values[0], after_one, 2e-6F);
  EXPECT_NEAR(values[1], after_two, 2e-6F);
}

TEST(ChunkStoreTest, EveryOptimizerKeepsItsStatePerChunk) {
  ExpectValues(JobOf(proto::OptimizerKind::kSgd), 0.95F, 0.925F);
  ExpectValues(JobOf(proto::OptimizerKind::kAdam), 0.9F, 0.806782F);
  ExpectValues(JobOf(proto::OptimizerKind::kAdamw), 0.9F, 0.806782F);
  ExpectValues(JobOf(proto::OptimizerKind::kAdagrad), 0.9F, 0.855279F);
  ExpectValues(JobOf(proto::OptimizerKind::kRmsprop), 0, -0.449013F);
  Job momentum = JobOf(proto::OptimizerKind::kSgd);
  momentum.settings.optimizer.momentum = 0.9F;
  ExpectValues(momentum, 0.95F, 0.88F);
  momentum.settings.optimizer.nesterov = true;
  ExpectValues(momentum, 0.905F, 0.817F);
}

TEST(ChunkStoreTest, AnUpdateInPartsIsTheUpdateOfTheWhole) {
  for (const auto kind : {proto::OptimizerKind::kSgd, proto::OptimizerKind::kAdam}) {
    Job job;
    job.settings.optimizer.kind = kind;
    job.settings.optimizer.lr = 0.1F;
    job.settings.optimizer.momentum = kind == proto::OptimizerKind::kSgd ? 0.9F : 0;
    Result<ChunkStore> whole = job.MakeStore();
    job.settings.frame_bytes = 8;
    Result<ChunkStore> parts = job.MakeStore();
    ASSERT_TRUE(whole.ok() && parts.ok());
    EXPECT_EQ(whole->part_count(), 3U);
    EXPECT_EQ(parts->part_count(), 4U) << "the third chunk has 3 elements";
    const size_t third = parts->IndexOf(kThird).value();
    EXPECT_EQ(parts->chunks()[third].first_part, 2U);
    EXPECT_EQ(parts->chunks()[third].part_count, 2U);
    const std::vector<float> gradient = {0.1F, 0.2F, 0.3F};
    const std::vector<float> other = {0.5F, 0.7F, 0.9F};
    for (int update = 0; update < 3; ++update) {
      whole->Apply(third, 0, gradient, {0.1F});
      whole->FinishUpdate(third);
      parts->Apply(third, 0, std::span(gradient).first(2), {0.1F});
      parts->Apply(third, 1, std::span(gradient).subspan(2), {0.1F});
      parts->FinishUpdate(third);
    }
    const std::vector<kernels::WeightedPart> both = {{gradient.data(), 1}, {other.data(), 2}};
    whole->Apply(third, 0, whole->MeanOf(both, 3), {0.1F});
    whole->FinishUpdate(third);
    for (const uint32_t part : {0U, 1U}) {
      const std::vector<kernels::WeightedPart> tails = {
          {gradient.data() + size_t{2} * part, 1}, {other.data() + size_t{2} * part, 2}};
      parts->Apply(third, part, parts->MeanOf(tails, part == 0 ? 2 : 1), {0.1F});
    }
    parts->FinishUpdate(third);
    EXPECT_EQ(parts->chunks()[third].version, 4U);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(parts->ValuesOf(third)[i], whole->ValuesOf(third)[i]) << i;
    }
  }
}

/// The second gradient is against the momentum that the first one left. Lengths are of the whole
/// chunk, so that each element is turned by the same.
TEST(ChunkStoreTest, HelocoTurnsAChunkByAllOfItInWhateverParts) {
  Job job = JobOf(proto::OptimizerKind::kHeloco);
  job.settings.optimizer.momentum = 0.5F;
  Result<ChunkStore> whole = job.MakeStore();
  job.settings.frame_bytes = 8;
  Result<ChunkStore> parts = job.MakeStore();
  ASSERT_TRUE(whole.ok() && parts.ok());
  const size_t third = parts->IndexOf(kThird).value();
  const std::vector<std::vector<float>> gradients = {{2, 0, 2}, {-1, 0, 0}};
  for (const std::vector<float>& gradient : gradients) {
    const std::span<const float> all(gradient);
    whole->ApplyParts(third, std::vector{all}, {1});
    whole->FinishUpdate(third);
    parts->ApplyParts(third, std::vector{all.first(2), all.subspan(2)}, {1});
    parts->FinishUpdate(third);
  }
  // From 1 with m 0: m becomes (1, 0, 1), w is 1 - (2 + 0.5 * 2). Then |m| is root 2, the cosine
  // -1 / root 2, c = 1 / (1 + 3 root 2); b cos c / |m| is what of m is added.
  const double c = 1 / (1 + 3 * std::sqrt(2.0));
  const double towards = 0.5 * std::sqrt(0.5) * c * std::sqrt(0.5) * c / std::sqrt(2.0);
  const double v[] = {-1 + towards, 0, towards};
  const double m[] = {1, 0, 1};
  const double w[] = {-2, 1, -2};
  for (size_t i = 0; i < 3; ++i) {
    const double next = 0.5 * m[i] + 0.5 * v[i];
    EXPECT_NEAR(whole->ValuesOf(third)[i], w[i] - (v[i] + 0.5 * (2 * next - m[i])), 1e-6) << i;
    EXPECT_EQ(parts->ValuesOf(third)[i], whole->ValuesOf(third)[i]) << i;
  }
}

TEST(ChunkStoreTest, HelocoTurnsNoObservations) {
  Job job = JobOf(proto::OptimizerKind::kHeloco);
  job.settings.optimizer.momentum = 0.5F;
  job.setup.tensors[0].rule = UpdateRule::kAverage;
  job.setup.tensors[0].average_rate = 0.5F;
  const Result<ChunkStore> store = job.MakeStore();
  ASSERT_TRUE(store.ok());
  EXPECT_FALSE(store->IsTurned(0)) << "it has no momentum";
  ExpectValues(job, 0.75F, 0.5F);
}

/// A chunk that was gathered by three workers' updates comes to a shard that has one: of how many
/// they were is not known there, so they are left out of the momentum. With an `every` of the
/// config it is, and nothing is.
TEST(ChunkStoreTest, WhatIsGatheredForADelayedMomentumIsKeptWhereItsNumberIsKnown) {
  const std::vector<std::pair<bool, bool>> cases = {
      {true, false}, {false, false}, {true, true}, {false, true}};
  for (const auto& [is_live, is_moved] : cases) {
    Job job = JobOf(proto::OptimizerKind::kDelayedNesterov);
    job.settings.optimizer.momentum = 0.5F;
    job.settings.optimizer.every = 3;
    proto::JobConfig config;
    config.optimizer.kind = proto::OptimizerKind::kDelayedNesterov;
    config.optimizer.every = is_live ? 0 : 3;
    job.settings.lr_policy = LrPolicy(config);
    Result<ChunkStore> giver = job.MakeStore();
    Result<ChunkStore> taker = job.MakeStore();
    ASSERT_TRUE(giver.ok() && taker.ok()) << giver.status();
    const auto update = [](ChunkStore* store, float g) {
      const std::vector<float> gradient(2, g);
      store->ApplyParts(0, std::vector{std::span<const float>(gradient)}, {1});
      store->FinishUpdate(0);
      return store->ValuesOf(0)[0];
    };
    giver->SetEvery(is_live ? 3 : 0);
    update(&*giver, 0.5F);
    const float before = update(&*giver, 0.5F);
    if (is_moved) {
      const ChunkKey key = taker->chunks()[0].key;
      taker->Remove(std::vector{key}, 2);
      Result<Chunk> chunk = taker->MakeChunk(key, 0);
      ASSERT_TRUE(chunk.ok()) << chunk.status();
      checkpoint::ChunkData data = giver->Take(0);
      chunk->version = data.version;
      chunk->value = std::move(data.value);
      chunk->slots = std::move(data.slots);
      std::vector<Chunk> chunks;
      chunks.push_back(std::move(*chunk));
      taker->Insert(std::move(chunks), 2);
    } else {
      ASSERT_TRUE(taker->Restore(0, giver->Take(0)).ok());
    }
    taker->SetEvery(is_live ? 1 : 0);
    EXPECT_NEAR(before - update(&*taker, 0), is_live ? 0 : 0.5F / 3, 1e-6F);
  }
}

TEST(ChunkStoreTest, WeightDecayIsForTensorsThatHaveIt) {
  Job job = JobOf(proto::OptimizerKind::kSgd);
  job.settings.optimizer.weight_decay = 0.1F;
  ExpectValues(job, 0.95F, 0.925F);
  job.setup.tensors[0].has_weight_decay = true;
  ExpectValues(job, 0.94F, 0.9056F);
}

TEST(ChunkStoreTest, GradientsAreClipped) {
  Job job = JobOf(proto::OptimizerKind::kSgd);
  job.settings.optimizer.clip_value = 0.3F;
  ExpectValues(job, 0.97F, 0.945F);
}

TEST(ChunkStoreTest, ObservationsAreAveragedWithoutTheOptimizer) {
  Job job = JobOf(proto::OptimizerKind::kAdam);
  job.setup.tensors[0].rule = UpdateRule::kAverage;
  job.setup.tensors[0].average_rate = 0.5F;
  ExpectValues(job, 0.75F, 0.5F);
}

TEST(ChunkStoreTest, WhatLocalStepsHaveObservedWeighsAsMuchAsAllOfThem) {
  Job job = JobOf(proto::OptimizerKind::kSgd);
  job.setup.tensors[0].rule = UpdateRule::kAverage;
  job.setup.tensors[0].average_rate = 0.5F;
  Job once = job;  // 1 - 0.5 * 0.5
  once.setup.tensors[0].average_rate = 0.75F;
  const auto after = [](const Job& of, uint32_t local_steps) {
    ChunkStore store = of.MakeStore().value();
    const std::vector<float> observed(store.ValuesOf(0).size(), 0.5F);
    store.Apply(0, 0, observed, {1, local_steps});
    return store.ValuesOf(0)[0];
  };
  EXPECT_EQ(after(job, 2), after(once, 1));
  EXPECT_NE(after(job, 3), after(once, 1)) << "a push says how many there were";
}

TEST(ChunkStoreTest, InitialValuesAreThoseOfTheTensorWhateverTheChunking) {
  Job job;
  job.setup.tensors[0].init = InitKind::kNormal;
  float whole[4];
  InitializeTensor(job.setup.tensors[0], 0, job.settings.seed, 0, whole, 4);
  const Result<ChunkStore> store = job.MakeStore();
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store->ValuesOf(0)[0], whole[0]);
  EXPECT_EQ(store->ValuesOf(0)[1], whole[1]);
  EXPECT_EQ(store->ValuesOf(1)[0], whole[2]);
  EXPECT_EQ(store->ValuesOf(1)[1], whole[3]);
}

TEST(ChunkStoreTest, OnlyOwnChunksAreTaken) {
  const Result<ChunkStore> store = Job().MakeStore();
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store->size(), 3U);
  EXPECT_EQ(store->parameter_bytes(), 28U);
  EXPECT_EQ(store->IndexOf(kThird), 2U);
  EXPECT_FALSE(store->IndexOf(kForeign).has_value());
  EXPECT_FALSE(store->IndexOf(MakeChunkKey(9, 9)).has_value());
}

TEST(ChunkStoreTest, APlacementThatDoesNotFitTheTensorsIsRefused) {
  const proto::ShardSetup good = ShardRig().setup;
  std::vector<proto::ShardSetup> bad(5, good);
  bad[0].placement.chunks[2].key = MakeChunkKey(7, 0);
  bad[1].placement.chunks[1].element_count = 3;
  bad[2].placement.chunks[0].element_count = 0;
  bad[3].placement.chunks[0].element_begin = -1;
  std::swap(bad[4].placement.chunks[0], bad[4].placement.chunks[1]);
  for (const proto::ShardSetup& setup : bad) {
    const Result<ChunkStore> store = ChunkStore::Make(kShard, ShardSettings(), setup);
    EXPECT_EQ(store.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(ChunkStoreTest, AMeanOfOnePartIsAppliedAsItIs) {
  Result<ChunkStore> store = Job().MakeStore();
  ASSERT_TRUE(store.ok());
  const std::vector<float> odd = {0.1F, 0.3F};
  const kernels::WeightedPart part{odd.data(), 7};
  store->Apply(0, 0, store->MeanOf({&part, 1}, 2), {1});
  EXPECT_EQ(store->ValuesOf(0)[0], 1 - 0.1F);
  EXPECT_EQ(store->ValuesOf(0)[1], 1 - 0.3F);
}

}  // namespace
}  // namespace ps::server
