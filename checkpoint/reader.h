#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/job_store.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_store.h"
#include "checkpoint/storage/storage.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

/// Something of a checkpoint that can't be read, or is wrong.
struct Damage {
  std::string what;  // "manifest", "part of shard 2", "conv1.weight[0:4096]"
  Status status;
};

/// How a tensor differs between two checkpoints.
struct TensorDifference {
  std::string name;
  uint64_t elements = 0;
  uint64_t elements_changed = 0;
  double change_max = 0;   // largest difference of an element
  double change_norm = 0;  // Euclidean norm of the difference
  double norm = 0;         // of the first one's values
};

/// The checkpoints of a path, for tools: reads beside a run that writes, and sees what was there
/// when it was opened. Thread: any one at a time.
class Reader {
 public:
  /// Errors: kNotFound when there are no checkpoints; those of Storage::Open.
  static Result<std::unique_ptr<Reader>> Open(Storage& storage, const std::string& path);

  /// Those with a manifest, oldest first.
  const std::vector<CheckpointId>& ids() const { return ids_; }

  const std::string& path() const { return path_; }

  /// Errors: kNotFound, with the numbers that are there; kCorruption; kUnsupported.
  Result<Manifest> ReadManifest(CheckpointId id);

  /// Reads everything that a checkpoint has. Empty: it is whole.
  std::vector<Damage> Verify(CheckpointId id);

  /// The same as one status: a proof of damage, where there is one, before what may pass.
  Status ReadWhole(CheckpointId id);

  /// What is wrong with the index of checkpoints, P/job and its copy, where it concerns this one:
  /// no damage of the checkpoint, which can be used. Empty: both have it.
  std::vector<Damage> VerifyIndex(CheckpointId id) const;

  /// Hands out the values of a tensor in order, piece by piece. Errors: kCorruption and others,
  /// naming tensor and elements; what `visit` returns.
  Status ReadTensor(
      const Manifest& manifest,
      uint32_t tensor,
      const std::function<Status(uint64_t begin, std::span<const float> values)>& visit);

  /// Tensor by tensor. Errors: kInvalidArgument when the models are different ones.
  Result<std::vector<TensorDifference>> Compare(const Manifest& first, const Manifest& second);

  /// A chunk with its optimizer state.
  Result<ChunkData> ReadChunk(const Manifest& manifest, const PlacedChunk& chunk);

 private:
  /// One shard's part of a checkpoint.
  struct Part {
    ShardStore* store = nullptr;
    std::map<ChunkKey, ChunkRef> refs;
  };

  Reader(Storage* storage, std::string path);

  Result<ShardStore*> StoreOf(const std::string& directory);
  Result<const Part*> PartOf(const Manifest& manifest, ShardId shard);

  Storage* storage_;
  std::string path_;
  std::unique_ptr<JobStore> job_;
  std::vector<CheckpointId> ids_;
  std::map<std::string, std::unique_ptr<ShardStore>> stores_;  // by directory
  std::map<std::pair<CheckpointId, ShardId>, Part> parts_;     // that were read and are right
};

/// "conv1.weight[0:4096]": elements of a tensor.
std::string ElementsName(const Manifest& manifest, const PlacedChunk& chunk);

}  // namespace ps::checkpoint
