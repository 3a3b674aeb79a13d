#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/part.h"
#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"

namespace ps::checkpoint {

/// Elements [begin, begin + count) of tensor TensorOf(key), and the shard that owned them.
struct PlacedChunk {
  ChunkKey key;
  uint64_t begin = 0;
  uint64_t count = 0;
  ShardId shard;

  friend bool operator==(const PlacedChunk&, const PlacedChunk&) = default;
};

/// Where a shard's part of the checkpoint is.
struct ManifestPart {
  ShardId shard;
  std::string directory;  // in the checkpoint path: "shard-3"
  PartSummary summary;

  friend bool operator==(const ManifestPart&, const ManifestPart&) = default;
};

/// How far the training was.
struct Progress {
  uint32_t epoch = 0;    // finished
  uint64_t steps = 0;    // counted
  uint64_t samples = 0;  // counted
  double loss = 0;       // of the newest minibatches, smoothed; NaN where there was none
  double accuracy = 0;   // likewise, 0 .. 1; NaN also where the model learns numbers

  friend bool operator==(const Progress&, const Progress&) = default;
};

/// A checkpoint exists if and only if this does.
struct Manifest {
  CheckpointId id = 0;
  int64_t unix_micros = 0;           // when it was committed; for people, never for decisions
  std::string software;              // version of the program that wrote it
  std::string config_json;           // the job
  std::vector<std::byte> job_state;  // the coordinator's own, opaque here
  std::vector<TensorSpec> tensors;
  std::vector<PlacedChunk> chunks;  // by key; those of a tensor cover it from its first element on
  std::vector<ManifestPart> parts;  // by shard, each once
  Progress progress;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// The sums over all shards.
WriteStats TotalStats(const Manifest& manifest);

/// What is wrong with it: kInvalidArgument. Ok: it can be encoded.
Status CheckManifest(const Manifest& manifest);

/// FORMAT.md says it to the byte. Requires: CheckManifest is ok.
std::vector<std::byte> EncodeManifest(const Manifest& manifest);

/// The opposite, for any bytes: reads nothing outside them and takes memory in proportion to them.
/// What it returns passes CheckManifest. Errors: kCorruption (damaged, or of another checkpoint
/// than `id`), kUnsupported (newer format).
Result<Manifest> DecodeManifest(CheckpointId id, std::span<const std::byte> bytes);

}  // namespace ps::checkpoint
