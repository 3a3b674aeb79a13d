#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "ps/base/check.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/job/optimizer_rules.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/shard_settings.h"
#include "worker/model/model.h"

namespace ps::worker::test {

/// The parameters of a whole model as a job's server initialises and updates them.
class ModelServer {
 public:
  ModelServer(const proto::JobConfig& config, const Model& model)
      : config_(config), store_(MakeStore(config, model)) {}

  std::span<const float> ValuesOf(size_t tensor) const { return store_.ValuesOf(tensor); }

  /// A tensor's part of a push of `samples` in async, when `fraction` of the training is done: the
  /// config's lr is for its minibatch.
  void Apply(size_t tensor, std::span<const float> gradient, uint64_t samples, double fraction) {
    const float lr = proto::ScheduledLr(config_.optimizer, fraction) * static_cast<float>(samples) /
                     static_cast<float>(config_.train.minibatch);
    PS_CHECK(store_.Apply(tensor, 0, gradient, {lr})) << "a gradient that is not finite";
    store_.FinishUpdate(tensor);
  }

 private:
  /// A chunk a tensor.
  static server::ChunkStore MakeStore(const proto::JobConfig& config, const Model& model) {
    server::ShardSettings settings = server::ShardSettings::Of(config);
    settings.frame_bytes = uint64_t{1} << 30;  // a chunk is one part
    proto::ShardSetup setup;
    setup.tensors = model.tensors;
    for (uint32_t i = 0; i < model.tensors.size(); ++i) {
      const auto elements = static_cast<uint32_t>(model.tensors[i].element_count());
      setup.placement.chunks.push_back({MakeChunkKey(i, 0), elements, 0, ShardId(0)});
    }
    return server::ChunkStore::Make(ShardId(0), settings, setup).value();
  }

  const proto::JobConfig config_;
  server::ChunkStore store_;
};

}  // namespace ps::worker::test
