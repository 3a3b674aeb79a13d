#include "provisioner/profile/fingerprint.h"

#include <fmt/core.h>

#include <span>

#include "ps/base/crc32c.h"
#include "ps/proto/job/optimizer_rules.h"

namespace ps::provisioner {
namespace {

std::string Fingerprint(const std::string& text) {
  return fmt::format("{:08x}", Crc32c(std::as_bytes(std::span(text))));
}

}  // namespace

std::string ModelFingerprint(const std::vector<TensorSpec>& tensors) {
  std::string text;
  for (const TensorSpec& tensor : tensors) {
    text += tensor.name;
    for (const int64_t size : tensor.shape) {
      text += fmt::format(" {}", size);
    }
    text += "\n";
  }
  return Fingerprint(text);
}

std::string TrainingFingerprint(const proto::JobConfig& config) {
  const proto::TrainConfig usual;
  proto::JobConfig same;
  if (config.worker.program.empty()) {
    same.model = config.model;
  }
  same.worker.program = config.worker.program;
  same.data = config.data;
  same.data.test_samples = 0;
  same.data.cache.clear();
  same.optimizer = config.optimizer;
  same.train = config.train;
  same.outer = config.outer;
  same.train.seed = usual.seed;
  same.train.lease_steps = usual.lease_steps;
  same.train.evaluate_every_epochs = usual.evaluate_every_epochs;
  same.train.on_divergence = usual.on_divergence;
  same.train.stop_early = usual.stop_early;
  if (config.train.local_steps > 1) {
    // As it is where single minibatches are exchanged, unless it is told not to overlap.
    same.train.local_steps = usual.local_steps;
    same.train.overlap =
        config.train.mode == proto::Mode::kAsync && config.optimizer.clip_norm == 0;
  }
  // What `auto` stands for with single minibatches, the exchange that local steps are compared
  // with.
  same.train.lr_policy = proto::LrPolicyOf(same);
  if (config.optimizer.schedule.kind == proto::ScheduleKind::kConstant &&
      config.optimizer.schedule.warmup == 0) {
    same.train.epochs = usual.epochs;
  }
  return Fingerprint(proto::PrintJobConfig(same));
}

bool TrainsLike(const proto::JobConfig& config, const std::string& fingerprint) {
  if (fingerprint.empty() || fingerprint == TrainingFingerprint(config)) {
    return true;
  }
  if (config.train.local_steps == 1) {
    return false;
  }
  // With single minibatches there is no outer optimizer, and they may be told not to overlap.
  proto::JobConfig single = config;
  single.outer = {};
  single.train.local_steps_by_speed = false;
  if (fingerprint == TrainingFingerprint(single)) {
    return true;
  }
  single.train.local_steps = 1;
  single.train.overlap = false;
  return fingerprint == TrainingFingerprint(single);
}

}  // namespace ps::provisioner
