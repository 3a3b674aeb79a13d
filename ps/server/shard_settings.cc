#include "ps/server/shard_settings.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ps::server {

ShardSettings ShardSettings::Of(const proto::JobConfig& config) {
  ShardSettings settings;
  settings.seed = config.train.seed;
  settings.optimizer = config.optimizer;
  settings.gradient_dtype = config.train.gradient_dtype;
  settings.lr_policy = LrPolicy(config);
  settings.reference_minibatch = config.train.minibatch;
  settings.frame_bytes = uint64_t{config.servers.frame_kib} << 10U;
  settings.queue_bytes = uint64_t{config.servers.queue_mib} << 20U;
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

float ScheduledLr(const proto::OptimizerConfig& config, double fraction) {
  const proto::ScheduleConfig& schedule = config.schedule;
  const double done = std::clamp(fraction, 0.0, 1.0);
  const double warmup = schedule.warmup;
  if (done < warmup) {
    return static_cast<float>(config.lr * (done / warmup));
  }
  const double progress = warmup < 1 ? (done - warmup) / (1 - warmup) : 1;
  const double end = schedule.final_factor;
  double factor = 1;
  switch (schedule.kind) {
    case proto::ScheduleKind::kConstant:
      return config.lr;
    case proto::ScheduleKind::kStep:
      for (const float milestone : schedule.milestones) {
        factor *= done >= milestone ? schedule.step_factor : 1;
      }
      break;
    case proto::ScheduleKind::kCosine:
      factor = end + (1 - end) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
      break;
    case proto::ScheduleKind::kLinear:
      factor = 1 + (end - 1) * progress;
      break;
  }
  return static_cast<float>(config.lr * factor);
}

}  // namespace ps::server
