#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/timing.h"
#include "ps/server/checkpoints/shard_disk.h"
#include "ps/server/lr_policy.h"

namespace ps::server {

/// What a shard takes out of the job's config.
struct ShardSettings {
  uint64_t seed = 1;
  proto::OptimizerConfig optimizer;
  std::vector<proto::ParameterGroup> parameters;
  LrPolicy lr_policy;              // before the first step
  uint32_t reference_samples = 1;  // async, ssp: a minibatch of so many counts as one
  uint64_t frame_bytes = 512U << 10;
  uint64_t queue_bytes = 64U << 20;
  uint64_t held_bytes_max = uint64_t{1} << 30;  // of what workers hold, for differences
  uint64_t commit_slice_bytes = 8U << 20;  // bsp: of gradients, between two looks at the messages
  DiskPlace checkpoints;                   // path empty: none are written
  proto::Timing timing = proto::Timing::FromMaxDetect(std::chrono::seconds(3));

  static ShardSettings Of(const proto::JobConfig& config);

  /// Out of ShardSetup.config_json. Errors: kInvalidArgument.
  static Result<ShardSettings> Read(const std::string& config_json);
};

/// How a core gets its settings out of ShardSetup.config_json: ShardSettings::Read, but in tests
/// and simulations that set what no config can say.
using ReadSettings = std::function<Result<ShardSettings>(const std::string& config_json)>;

}  // namespace ps::server
