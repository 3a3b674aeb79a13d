#include "tests/checkpoint/samples.h"

#include <string>

#include "checkpoint/chunk_record.h"
#include "checkpoint/keys.h"
#include "checkpoint/shard_store.h"
#include "ps/base/check.h"
#include "ps/base/random.h"
#include "tests/checkpoint/memory_storage.h"

namespace ps::checkpoint {

Manifest SampleManifest() {
  Manifest manifest;
  manifest.id = 7;
  manifest.unix_micros = 1'753'000'000'123'456;
  manifest.software = "spotps 0.1.0";
  manifest.config_json = R"({"name": "sample"})";
  manifest.job_state = {std::byte{1}, std::byte{2}, std::byte{3}};
  manifest.tensors = {
      {.name = "conv1.weight",
       .shape = {4, 3},
       .init = InitKind::kNormal,
       .init_scale = 0.5F,
       .rule = UpdateRule::kOptimizer,
       .average_rate = 0,
       .has_weight_decay = true},
      {.name = "conv1.bias",
       .shape = {},
       .init = InitKind::kConstant,
       .init_scale = 0.25F,
       .rule = UpdateRule::kAverage,
       .average_rate = 0.1F,
       .has_weight_decay = false}};
  manifest.chunks = {
      {.key = MakeChunkKey(0, 0), .begin = 0, .count = 8, .shard = ShardId(0)},
      {.key = MakeChunkKey(0, 1), .begin = 8, .count = 4, .shard = ShardId(2)},
      {.key = MakeChunkKey(1, 0), .begin = 0, .count = 1, .shard = ShardId(0)}};
  manifest.parts = {
      {.shard = ShardId(0),
       .directory = "shard-0",
       .summary =
           {.bytes = 345,
            .crc = 0x12345678,
            .stats =
                {.logical_bytes = 1000,
                 .written_bytes = 600,
                 .shared_bytes = 300,
                 .chunks_written = 3,
                 .chunks_shared = 2}}},
      {.shard = ShardId(2),
       .directory = "shard-2",
       .summary = {
           .bytes = 346,
           .crc = 0x9ABCDEF0,
           .stats = {
               .logical_bytes = 101,
               .written_bytes = 50,
               .shared_bytes = 40,
               .chunks_written = 1,
               .chunks_shared = 4}}}};
  manifest.progress = {
      .epoch = 3, .steps = 4321, .samples = 65'432, .loss = 0.75, .accuracy = 0.875};
  return manifest;
}

PartRecord SamplePart() {
  PartRecord part;
  part.state = {std::byte{9}, std::byte{8}};
  part.chunks = {
      {.key = MakeChunkKey(0, 0),
       .version = 12,
       .written = 7,
       .base = 7,
       .depth = 0,
       .slot_count = 1,
       .element_count = 8,
       .crc = 0x01020304,
       .stored_bytes = 144},
      {.key = MakeChunkKey(1, 2),
       .version = 5,
       .written = 6,
       .base = 3,
       .depth = 2,
       .slot_count = 0,
       .element_count = 1,
       .crc = 0x05060708,
       .stored_bytes = 90}};
  return part;
}

std::vector<float> SampleValues(int updates) {
  std::vector<float> values;
  for (size_t i = 0; i < 64; ++i) {
    const auto start = static_cast<float>(ToUnit(CounterRandom(1, 2, i)));
    values.push_back(start * (1 + 0.0001F * static_cast<float>(updates)));
  }
  return values;
}

std::vector<std::byte> SampleChunkRecord() {
  MemoryStorage storage;
  auto store = ShardStore::Open(storage, "p", ShardId(0), OpenMode::kWrite);
  const std::vector<float> value = SampleValues(0);
  const std::vector<float> slot(value.size(), -1);
  const ChunkImage image{
      .key = MakeChunkKey(1, 2), .version = 5, .value = value, .slots = {slot, {}}};
  const auto ref = (*store)->PutChunk(7, image, nullptr, {Codec::kNone});
  PS_CHECK(ref.ok()) << ref.status();
  return *storage.ValueOf("p/shard-0", 0, MakeRecordKey(image.key, 7));
}

std::vector<std::byte> SampleBf16Record() {
  MemoryStorage storage;
  auto store = ShardStore::Open(storage, "p", ShardId(0), OpenMode::kWrite);
  const std::vector<float> value = SampleValues(0);
  const std::vector<float> slot = SampleValues(1);
  const ChunkImage image{
      .key = MakeChunkKey(1, 2), .version = 5, .value = value, .slots = {slot, {}}};
  const auto ref = (*store)->PutChunk(7, image, nullptr, {Codec::kNone, SlotType::kBf16});
  PS_CHECK(ref.ok()) << ref.status();
  return *storage.ValueOf("p/shard-0", 0, MakeRecordKey(image.key, 7));
}

std::vector<std::byte> SampleDeltaRecord() {
  MemoryStorage storage;
  auto store = ShardStore::Open(storage, "p", ShardId(0), OpenMode::kWrite);
  std::vector<float> value = SampleValues(0);
  std::vector<float> slot(value.size(), -1);
  ChunkImage image{.key = MakeChunkKey(1, 2), .version = 5, .value = value, .slots = {slot, {}}};
  const auto first = (*store)->PutChunk(7, image, nullptr, {Codec::kNone});
  PS_CHECK(first.ok()) << first.status();
  value = SampleValues(1);
  slot.assign(value.size(), 0.5F);
  image = {.key = image.key, .version = 6, .value = value, .slots = {slot, {}}};
  const auto second = (*store)->PutChunk(9, image, &*first, {Codec::kZstd});
  PS_CHECK(second.ok()) << second.status();
  return *storage.ValueOf("p/shard-0", 0, MakeRecordKey(image.key, 9));
}

}  // namespace ps::checkpoint
