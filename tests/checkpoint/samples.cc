#include "tests/checkpoint/samples.h"

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

}  // namespace ps::checkpoint
