// What a shard's store keeps, over each storage engine.

#include "checkpoint/shard_store.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "checkpoint/model/half.h"
#include "ps/base/random.h"
#include "tests/checkpoint/engines.h"

namespace ps::checkpoint {
namespace {

/// A chunk with values that are a function of its key and version.
struct Sample {
  Sample(uint32_t chunk, Version version_, size_t slot_count = 1, size_t element_count = 300)
      : key(MakeChunkKey(2, chunk)), version(version_), buffers(1 + slot_count) {
    for (size_t b = 0; b < buffers.size(); ++b) {
      for (size_t i = 0; i < element_count; ++i) {
        buffers[b].push_back(
            static_cast<float>(ToUnit(CounterRandom(chunk + 7 * b, 0, i))) +
            0.001F * static_cast<float>(version));
      }
    }
  }

  ChunkImage image() const {
    ChunkImage image{.key = key, .version = version, .value = buffers[0], .slots = {}};
    for (size_t i = 1; i < buffers.size(); ++i) {
      image.slots[i - 1] = buffers[i];
    }
    return image;
  }

  ChunkKey key;
  Version version;
  std::vector<std::vector<float>> buffers;
};

bool HasBytes(const Buffer& buffer, const std::vector<float>& values) {
  return buffer.size() == values.size() * sizeof(float) &&
         std::memcmp(buffer.data(), values.data(), buffer.size()) == 0;
}

void ExpectHolds(ShardStore& store, const ChunkRef& ref, const Sample& sample) {
  const Result<ChunkData> data = store.ReadChunk(ref);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->version, sample.version);
  EXPECT_TRUE(HasBytes(data->value, sample.buffers[0]));
  for (size_t i = 0; i < kSlotsMax; ++i) {
    const bool has_slot = i + 1 < sample.buffers.size();
    EXPECT_TRUE(
        has_slot ? HasBytes(data->slots[i], sample.buffers[i + 1]) : data->slots[i].size() == 0);
  }
}

class ShardStoreTest : public testing::TestWithParam<const Engine*> {
 protected:
  void SetUp() override { Reopen(); }

  void Reopen() {
    store_.reset();
    auto store = ShardStore::Open(engine_->storage(), path(), ShardId(3), OpenMode::kWrite);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = std::move(store).value();
  }

  std::string path() const { return engine_->path() + "/p"; }

  ChunkRef Put(CheckpointId id, const Sample& sample) {
    return Put(id, sample, nullptr, {Codec::kNone});
  }

  ChunkRef Put(
      CheckpointId id, const Sample& sample, const ChunkRef* previous, ChunkFormat format) {
    const auto ref = store_->PutChunk(id, sample.image(), previous, format);
    EXPECT_TRUE(ref.ok()) << ref.status();
    return ref.ok() ? *ref : ChunkRef();
  }

  PartSummary Commit(CheckpointId id, std::vector<ChunkRef> chunks) {
    PartRecord part;
    part.state = {std::byte{1}, std::byte{2}, static_cast<std::byte>(id)};
    part.chunks = std::move(chunks);
    const auto summary = store_->CommitPart(id, part);
    EXPECT_TRUE(summary.ok()) << summary.status();
    return summary.ok() ? *summary : PartSummary();
  }

  std::unique_ptr<EngineUnderTest> engine_ = GetParam()->make();
  std::unique_ptr<ShardStore> store_;
};

TEST_P(ShardStoreTest, ACommittedPartIsReadBackBitForBit) {
  Sample odd(2, 9, 0, 1);
  odd.buffers[0][0] = std::bit_cast<float>(0x7FC01234U);  // a NaN with a payload
  const std::vector<Sample> samples = {Sample(0, 5, 1), Sample(1, 6, 2), odd};
  std::vector<ChunkRef> refs;
  for (const Sample& sample : samples) {
    refs.push_back(Put(7, sample));
  }
  Commit(7, refs);
  Reopen();
  const Result<PartRecord> part = store_->ReadPart(7);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->state, (std::vector<std::byte>{std::byte{1}, std::byte{2}, std::byte{7}}));
  ASSERT_EQ(part->chunks, refs);
  for (size_t i = 0; i < samples.size(); ++i) {
    ExpectHolds(*store_, part->chunks[i], samples[i]);
  }
}

TEST_P(ShardStoreTest, AnUnchangedChunkCostsNothing) {
  const ChunkRef same = Put(1, Sample(0, 5));
  const PartSummary first = Commit(1, {same, Put(1, Sample(1, 5))});
  EXPECT_EQ(first.stats.chunks_written, 2U);
  EXPECT_EQ(first.stats.logical_bytes, 2U * 2 * 300 * sizeof(float));
  const ChunkRef changed = Put(2, Sample(1, 6));
  const PartSummary second = Commit(2, {same, changed});
  EXPECT_EQ(second.stats.chunks_written, 1U);
  EXPECT_EQ(second.stats.chunks_shared, 1U);
  EXPECT_EQ(second.stats.written_bytes, changed.stored_bytes);
  EXPECT_EQ(second.stats.shared_bytes, same.stored_bytes);
  EXPECT_EQ(second.stats.logical_bytes, first.stats.logical_bytes);
  ExpectHolds(*store_, store_->ReadPart(2)->chunks[0], Sample(0, 5));
}

TEST_P(ShardStoreTest, OlderCheckpointsStayReadable) {
  Commit(1, {Put(1, Sample(0, 5))});
  Commit(4, {Put(4, Sample(0, 8))});
  EXPECT_EQ(*store_->Parts(), (std::vector<CheckpointId>{1, 4}));
  ExpectHolds(*store_, store_->ReadPart(1)->chunks[0], Sample(0, 5));
  ExpectHolds(*store_, store_->ReadPart(4)->chunks[0], Sample(0, 8));
}

TEST_P(ShardStoreTest, WhatWasNotCommittedIsNoCheckpoint) {
  Commit(1, {Put(1, Sample(0, 5))});
  Put(2, Sample(0, 6));
  Reopen();
  EXPECT_EQ(*store_->Parts(), (std::vector<CheckpointId>{1}));
  EXPECT_EQ(store_->ReadPart(2).status().code(), StatusCode::kNotFound);
  ExpectHolds(*store_, store_->ReadPart(1)->chunks[0], Sample(0, 5));
}

TEST_P(ShardStoreTest, ARecordOfACheckpointThatWasGivenUpCanBeReferredTo) {
  Commit(1, {Put(1, Sample(0, 5))});
  const ChunkRef given_up = Put(2, Sample(0, 6));
  Commit(3, {given_up});
  Reopen();
  ExpectHolds(*store_, store_->ReadPart(3)->chunks[0], Sample(0, 6));
}

TEST_P(ShardStoreTest, NumbersGrow) {
  const ChunkRef ref = Put(4, Sample(0, 5));
  Commit(4, {ref});
  Reopen();
  for (const CheckpointId id : {CheckpointId{3}, CheckpointId{4}}) {
    EXPECT_EQ(
        store_->PutChunk(id, Sample(0, 6).image(), nullptr, {Codec::kNone}).status().code(),
        StatusCode::kInvalidArgument);
    PartRecord part;
    part.chunks = {};
    EXPECT_EQ(store_->CommitPart(id, part).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST_P(ShardStoreTest, ThePartsChecksumIsTheSummarys) {
  const PartSummary summary = Commit(1, {Put(1, Sample(0, 5))});
  const Result<uint32_t> crc = store_->PartCrc(1);
  ASSERT_TRUE(crc.ok()) << crc.status();
  EXPECT_EQ(*crc, summary.crc);
}

TEST_P(ShardStoreTest, RetainDropsWhatNoKeptPartReaches) {
  const ChunkRef a1 = Put(1, Sample(0, 1));
  const ChunkRef b1 = Put(1, Sample(1, 1));
  Commit(1, {a1, b1});
  const ChunkRef a2 = Put(2, Sample(0, 2));
  Commit(2, {a2, b1});
  const ChunkRef a3 = Put(3, Sample(0, 3));
  Commit(3, {a3, b1});
  const ChunkRef a4 = Put(4, Sample(0, 4));  // of a checkpoint that is being written

  const std::vector<CheckpointId> kept = {2, 3};
  const Status retained = store_->Retain(kept);
  ASSERT_TRUE(retained.ok()) << retained;
  EXPECT_EQ(*store_->Parts(), (std::vector<CheckpointId>{2, 3}));
  EXPECT_EQ(store_->ReadChunk(a1).status().code(), StatusCode::kNotFound);
  ExpectHolds(*store_, b1, Sample(1, 1));
  ExpectHolds(*store_, a2, Sample(0, 2));
  ExpectHolds(*store_, a3, Sample(0, 3));
  ExpectHolds(*store_, a4, Sample(0, 4));
  Commit(4, {a4, b1});
  Reopen();
  ExpectHolds(*store_, store_->ReadPart(4)->chunks[0], Sample(0, 4));
  ExpectHolds(*store_, store_->ReadPart(4)->chunks[1], Sample(1, 1));
}

TEST_P(ShardStoreTest, ReleaseDropsWhatGivenUpCheckpointsHavePut) {
  const ChunkRef a1 = Put(1, Sample(0, 1));
  Commit(1, {a1});
  const ChunkRef a2 = Put(2, Sample(0, 2));
  Commit(2, {a2});                           // its manifest was never written
  const ChunkRef a3 = Put(3, Sample(0, 3));  // the disk was full before its part was
  const std::vector<CheckpointId> kept = {1};
  const Status released = store_->Release(kept, 4);
  ASSERT_TRUE(released.ok()) << released;
  EXPECT_EQ(*store_->Parts(), (std::vector<CheckpointId>{1}));
  EXPECT_EQ(store_->ReadChunk(a2).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->ReadChunk(a3).status().code(), StatusCode::kNotFound);
  ExpectHolds(*store_, a1, Sample(0, 1));
  const ChunkRef a4 = Put(4, Sample(0, 4));
  Commit(4, {a4});
  Reopen();
  ExpectHolds(*store_, a4, Sample(0, 4));
}

TEST_P(ShardStoreTest, RetainLeavesNewerPartsAlone) {
  Commit(1, {Put(1, Sample(0, 1))});
  const ChunkRef a2 = Put(2, Sample(0, 2));
  Commit(2, {a2});
  const std::vector<CheckpointId> kept = {1};
  ASSERT_TRUE(store_->Retain(kept).ok());
  EXPECT_EQ(*store_->Parts(), (std::vector<CheckpointId>{1, 2}));
  ExpectHolds(*store_, a2, Sample(0, 2));
}

TEST_P(ShardStoreTest, AnotherShardReadsBesideTheWriter) {
  const ChunkRef ref = Put(1, Sample(0, 1));
  Commit(1, {ref});
  const auto reader = ShardStore::Open(engine_->storage(), path(), ShardId(3), OpenMode::kRead);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectHolds(**reader, (*reader)->ReadPart(1)->chunks[0], Sample(0, 1));
}

TEST_P(ShardStoreTest, ARefThatTheRecordDoesNotFitIsNamed) {
  ChunkRef ref = Put(1, Sample(4, 1));
  ref.version = 2;
  const Status status = store_->ReadChunk(ref).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.message().find("chunk 4 of tensor 2 in checkpoint 1"), std::string::npos)
      << status;
}

TEST_P(ShardStoreTest, DeltasAreReadBackAndTheirChainHasAnEnd) {
  const auto sample = [](CheckpointId id) { return Sample(0, id, 2, 5000); };
  std::vector<ChunkRef> refs = {Put(1, sample(1), nullptr, {Codec::kZstd})};
  Commit(1, {refs.back()});
  for (CheckpointId id = 2; id <= 12; ++id) {
    const ChunkRef previous = refs.back();
    refs.push_back(Put(id, sample(id), &previous, {Codec::kZstd}));
    Commit(id, {refs.back()});
  }
  EXPECT_EQ(refs[1].depth, 1U);
  EXPECT_EQ(refs[8].depth, kDeltasMax);
  EXPECT_EQ(refs[8].base, 1U);
  EXPECT_EQ(refs[9].depth, 0U) << "the chain begins anew";
  EXPECT_EQ(refs[9].base, 10U);
  EXPECT_LT(refs[1].stored_bytes, refs[0].stored_bytes);
  Reopen();
  for (CheckpointId id = 1; id <= 12; ++id) {
    ExpectHolds(*store_, refs[id - 1], sample(id));
  }
}

/// What a chunk with bf16 slots is read back as.
Sample Bf16(Sample sample) {
  for (size_t i = 1; i < sample.buffers.size(); ++i) {
    RoundToBf16(sample.buffers[i], sample.buffers[i]);
  }
  return sample;
}

TEST_P(ShardStoreTest, Bf16SlotsComeBackRoundedAndTakeHalfTheSpace) {
  const Sample sample(0, 5, 2, 5000);
  const ChunkRef full = Put(1, sample);
  const ChunkRef half = Put(2, sample, nullptr, {Codec::kNone, SlotType::kBf16});
  EXPECT_EQ(full.stored_bytes - half.stored_bytes, 2 * 5000 * sizeof(uint16_t));
  ExpectHolds(*store_, half, Bf16(sample));
  EXPECT_NE(half.crc, full.crc) << "of what is read back";
}

TEST_P(ShardStoreTest, SlotsChangeTheirTypeInTheMiddleOfDeltas) {
  const auto sample = [](CheckpointId id) { return Sample(0, id, 1, 5000); };
  const ChunkRef first = Put(1, sample(1), nullptr, {Codec::kZstd});
  const ChunkRef second = Put(2, sample(2), &first, {Codec::kZstd, SlotType::kBf16});
  const ChunkRef third = Put(3, sample(3), &second, {Codec::kZstd, SlotType::kBf16});
  const ChunkRef last = Put(4, sample(4), &third, {Codec::kZstd});
  EXPECT_LT(third.stored_bytes, last.stored_bytes);
  Commit(4, {last});
  Reopen();
  ExpectHolds(*store_, second, Bf16(sample(2)));
  ExpectHolds(*store_, third, Bf16(sample(3)));
  ExpectHolds(*store_, last, sample(4));
}

TEST_P(ShardStoreTest, RetainKeepsWhatADeltaNeeds) {
  const auto sample = [](CheckpointId id) { return Sample(0, id, 1, 5000); };
  ChunkRef ref = Put(1, sample(1), nullptr, {Codec::kZstd});
  const ChunkRef first = ref;
  Commit(1, {ref});
  for (CheckpointId id = 2; id <= 11; ++id) {
    const ChunkRef previous = ref;
    ref = Put(id, sample(id), &previous, {Codec::kZstd});
    Commit(id, {ref});
    const std::vector<CheckpointId> kept = {id};
    ASSERT_TRUE(store_->Retain(kept).ok());
    ExpectHolds(*store_, ref, sample(id));
  }
  EXPECT_EQ(ref.base, 10U);
  EXPECT_EQ(store_->ReadChunk(first).status().code(), StatusCode::kNotFound);
}

TEST_P(ShardStoreTest, WithoutItsBaseAChunkIsWrittenInFull) {
  ChunkRef previous = Put(1, Sample(0, 1, 1, 5000), nullptr, {Codec::kZstd});
  previous.crc ^= 1;
  const ChunkRef ref = Put(2, Sample(0, 2, 1, 5000), &previous, {Codec::kZstd});
  EXPECT_EQ(ref.depth, 0U);
  ExpectHolds(*store_, ref, Sample(0, 2, 1, 5000));
  const ChunkRef other = Put(3, Sample(0, 2, 2, 5000), &ref, {Codec::kZstd});
  EXPECT_EQ(other.depth, 0U) << "a slot more";
}

INSTANTIATE_TEST_SUITE_P(Engines, ShardStoreTest, testing::ValuesIn(Engines()), EngineName);

}  // namespace
}  // namespace ps::checkpoint
