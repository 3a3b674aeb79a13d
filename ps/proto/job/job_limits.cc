#include "ps/proto/job/job_limits.h"

#include <fmt/core.h>

#include "ps/proto/chunks.h"
#include "ps/proto/limits.h"

namespace ps::proto {
namespace {

constexpr uint64_t kChunkKibMax = 32768;  // of job.fbs

uint64_t ModelChunks(const std::vector<TensorSpec>& tensors, uint64_t chunk_kib) {
  uint64_t count = 0;
  for (const TensorSpec& tensor : tensors) {
    count += ChunkCountOf(tensor.element_count(), chunk_kib << 10);
  }
  return count;
}

/// The least chunk size in KiB that cuts the model into few enough chunks; 0 when none does.
uint64_t LeastChunkKib(const std::vector<TensorSpec>& tensors, uint64_t too_small) {
  if (ModelChunks(tensors, kChunkKibMax) > kChunksMax) {
    return 0;
  }
  uint64_t enough = kChunkKibMax;
  while (enough - too_small > 1) {
    const uint64_t middle = too_small + (enough - too_small) / 2;
    (ModelChunks(tensors, middle) > kChunksMax ? too_small : enough) = middle;
  }
  return enough;
}

}  // namespace

Status CheckModelLimits(const JobConfig& config, const std::vector<TensorSpec>& tensors) {
  if (tensors.size() > kTensorsMax) {
    return Status::InvalidArgument(fmt::format(
        "model.layers make {} tensors; allowed: at most {}", tensors.size(), kTensorsMax));
  }
  for (const TensorSpec& tensor : tensors) {
    if (tensor.name.size() > kNameBytesMax || tensor.shape.size() > kTensorDimsMax) {
      return Status::InvalidArgument(fmt::format(
          "model.layers make a tensor whose name has {} bytes, as {}...; allowed: {}, so nest "
          "fewer layers in each other",
          tensor.name.size(),
          tensor.name.substr(0, 40),
          kNameBytesMax));
    }
  }
  const uint64_t chunk_kib = config.servers.chunk_kib;
  const uint64_t chunks = ModelChunks(tensors, chunk_kib);
  if (chunks <= kChunksMax) {
    return Status::Ok();
  }
  const uint64_t least = LeastChunkKib(tensors, chunk_kib);
  return Status::InvalidArgument(fmt::format(
      "servers.chunk_kib is {}, which cuts this model into {} chunks, and a job may have {}; {}",
      chunk_kib,
      chunks,
      kChunksMax,
      least == 0 ? std::string("no chunk size is large enough for it")
                 : fmt::format("allowed with this model: {} to {}", least, kChunkKibMax)));
}

Status CheckRoundLimits(const JobConfig& config, uint64_t largest_shard_bytes) {
  uint64_t workers = 0;
  for (const WorkerGroup& group : config.workers) {
    workers += group.count;
  }
  const uint64_t needed = workers * largest_shard_bytes;
  if (config.train.mode != Mode::kBsp || needed <= uint64_t{config.servers.queue_mib} << 20) {
    return Status::Ok();
  }
  return Status::InvalidArgument(fmt::format(
      "servers.queue_mib is {}; under bsp a shard keeps a gradient of each of the {} workers, {} "
      "bytes of its part of the model each; allowed: {} or more, or more shards",
      config.servers.queue_mib,
      workers,
      largest_shard_bytes,
      (needed + (1U << 20) - 1) >> 20));
}

}  // namespace ps::proto
