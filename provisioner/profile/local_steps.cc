#include "provisioner/profile/local_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/base/check.h"
#include "ps/proto/limits.h"

namespace ps::provisioner {
namespace {

/// Samples of the largest minibatch.
uint64_t LargestMinibatch(const proto::JobConfig& config) {
  uint64_t minibatch = std::max(config.train.minibatch, 1U);
  for (const proto::WorkerGroup& group : config.workers) {
    minibatch = std::max<uint64_t>(minibatch, group.minibatch);
  }
  return minibatch;
}

}  // namespace

double MinibatchesCounted(const proto::JobStatus& status, uint32_t local_steps) {
  if (local_steps <= 1) {
    return static_cast<double>(status.steps_counted);
  }
  double samples = 0;
  double minibatches = 0;
  for (const proto::WorkerRow& row : status.workers) {
    const auto counted = static_cast<double>(row.samples_counted);
    samples += counted;
    minibatches += counted / std::max(row.minibatch, 1U);
  }
  if (samples <= 0 || status.samples_counted == 0) {
    return static_cast<double>(status.steps_counted) * local_steps;
  }
  return static_cast<double>(status.samples_counted) * minibatches / samples;
}

double MinibatchesOf(const proto::WorkerStats& stats, uint32_t minibatch, uint32_t local_steps) {
  return local_steps <= 1 ? static_cast<double>(stats.steps)
                          : static_cast<double>(stats.samples) / std::max(minibatch, 1U);
}

int LocalStepsMost(const proto::JobConfig& config) {
  const uint64_t room = proto::kStepSamplesMax / LargestMinibatch(config);
  return static_cast<int>(std::clamp<uint64_t>(room, 1, proto::kLocalStepsMax));
}

Result<proto::JobConfig> WithLocalSteps(proto::JobConfig config, uint32_t local_steps) {
  PS_CHECK(local_steps >= 1);
  const uint64_t minibatch = LargestMinibatch(config);
  if (minibatch * local_steps > proto::kStepSamplesMax) {
    return Status::InvalidArgument(fmt::format(
        "{} local steps of {} samples are more than {} samples a step; allowed: up to {}",
        local_steps,
        minibatch,
        proto::kStepSamplesMax,
        proto::kStepSamplesMax / minibatch));
  }
  config.train.local_steps = local_steps;
  if (local_steps == 1) {
    config.train.local_steps_by_speed = false;
    config.outer = {};
  } else {
    config.train.overlap = false;
  }
  return config;
}

proto::ExchangeScheme SchemeOf(const proto::JobConfig& config) {
  const bool is_chosen = config.exchange.push == proto::kAutoWord;
  return {
      static_cast<int>(config.train.local_steps),
      is_chosen ? "f32" : config.exchange.push,
      config.exchange.pull};
}

proto::ExchangeScheme SchemeOf(const proto::StepSettings& settings) {
  return {static_cast<int>(settings.local_steps), settings.push.ToText(), settings.pull.ToText()};
}

Result<proto::JobConfig> WithScheme(proto::JobConfig config, const proto::ExchangeScheme& scheme) {
  const proto::ExchangeScheme own = SchemeOf(config);
  if (scheme.local_steps != own.local_steps) {
    PS_ASSIGN(config, WithLocalSteps(std::move(config), static_cast<uint32_t>(scheme.local_steps)));
  }
  if (scheme.push != own.push) {
    config.exchange.push = scheme.push;
  }
  config.exchange.pull = scheme.pull;
  return config;
}

}  // namespace ps::provisioner
