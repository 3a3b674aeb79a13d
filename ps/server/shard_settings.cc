#include "ps/server/shard_settings.h"

#include <cmath>

#include "ps/proto/job/optimizer_rules.h"

namespace ps::server {

ShardSettings ShardSettings::Of(const proto::JobConfig& config) {
  ShardSettings settings;
  settings.seed = config.train.seed;
  settings.optimizer = proto::ServerOptimizer(config);
  settings.parameters = config.parameters;
  if (config.train.local_steps > 1) {
    for (proto::ParameterGroup& group : settings.parameters) {
      group.lr_factor = 1;  // the workers' steps have it
    }
  }
  settings.lr_policy = LrPolicy(config);
  settings.reference_samples = config.train.minibatch;
  settings.frame_bytes = uint64_t{config.servers.frame_kib} << 10U;
  settings.queue_bytes = uint64_t{config.servers.queue_mib} << 20U;
  settings.held_bytes_max = uint64_t{config.servers.held_mib} << 20U;
  settings.checkpoints.path = config.checkpoint.enabled ? config.checkpoint.path : "";
  settings.checkpoints.format.codec = config.checkpoint.codec == proto::CheckpointCodec::kNone
                                          ? checkpoint::Codec::kNone
                                          : checkpoint::Codec::kZstd;
  settings.checkpoints.format.slots = config.checkpoint.slots == proto::CheckpointSlots::kBf16
                                          ? checkpoint::SlotType::kBf16
                                          : checkpoint::SlotType::kF32;
  settings.checkpoints.bytes_per_s =
      static_cast<uint64_t>(std::llround(double{config.checkpoint.write_mib_per_s} * (1 << 20)));
  settings.timing = proto::Timing::Of(config);
  return settings;
}

Result<ShardSettings> ShardSettings::Read(const std::string& config_json) {
  PS_ASSIGN(const proto::JobConfig config, proto::ParsePrintedJobConfig(config_json));
  return Of(config);
}

}  // namespace ps::server
