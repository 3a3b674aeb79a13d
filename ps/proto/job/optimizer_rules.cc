#include "ps/proto/job/optimizer_rules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ps::proto {
namespace {

/// DiLoCo's (arXiv 2311.08105), with Nesterov momentum of 0.9.
constexpr float kOuterLr = 0.7F;
/// The delay of workers that do not wait for each other acts like momentum itself: 0.7 cost a small
/// gpt half a nat with 8 local steps (docs/measurements/exchange.md).
constexpr float kDelayedLr = 0.3F;

/// What 0 stands for. Pushes that come one by one add up, those of a round are averaged; so HeLoCo
/// (arXiv 2606.00271) divides by the square root of the workers.
float DefaultOuterLr(OuterKind kind, const JobConfig& config) {
  switch (kind) {
    case OuterKind::kDelayedNesterov:
      return kDelayedLr;
    case OuterKind::kHeloco:
      return config.train.mode == Mode::kBsp
                 ? kOuterLr
                 : kOuterLr / std::sqrt(static_cast<float>(WorkersListed(config)));
    case OuterKind::kSgd:
      return config.outer.momentum == 0 ? 1.0F : kOuterLr;
    case OuterKind::kAuto:
    case OuterKind::kNesterov:
      break;
  }
  return kOuterLr;
}

uint32_t EveryOf(uint32_t every, const JobConfig& config) {
  return every > 0 ? every : WorkersListed(config);
}

}  // namespace

uint32_t WorkersAtStart(const JobConfig& config) {
  uint32_t workers = 0;
  for (const WorkerGroup& group : config.workers) {
    workers += group.count;
  }
  return workers;
}

uint32_t WorkersListed(const JobConfig& config) {
  return std::max(WorkersAtStart(config), 1U);
}

OuterKind OuterKindOf(const JobConfig& config) {
  if (config.outer.kind != OuterKind::kAuto) {
    return config.outer.kind;
  }
  return config.train.mode == Mode::kBsp ? OuterKind::kNesterov : OuterKind::kDelayedNesterov;
}

OptimizerConfig LocalOptimizer(const JobConfig& config) {
  OptimizerConfig rule = config.optimizer;
  if (rule.kind == OptimizerKind::kDelayedNesterov) {
    rule.every = EveryOf(rule.every, config);
  }
  return rule;
}

OptimizerConfig ServerOptimizer(const JobConfig& config) {
  if (config.train.local_steps == 1) {
    return LocalOptimizer(config);
  }
  const OuterConfig& outer = config.outer;
  const OuterKind kind = OuterKindOf(config);
  OptimizerConfig rule;
  rule.momentum = outer.momentum;
  rule.lr = outer.lr == 0 ? DefaultOuterLr(kind, config) : outer.lr;
  if (kind == OuterKind::kDelayedNesterov) {
    rule.kind = OptimizerKind::kDelayedNesterov;
    rule.every = EveryOf(outer.every, config);
  } else if (kind == OuterKind::kHeloco) {
    rule.kind = OptimizerKind::kHeloco;
  } else {
    rule.kind = OptimizerKind::kSgd;
    rule.nesterov = kind == OuterKind::kNesterov;
  }
  return rule;
}

LrPolicy LrPolicyOf(const JobConfig& config) {
  if (config.train.lr_policy != LrPolicy::kAuto) {
    return config.train.lr_policy;
  }
  const bool has_momentum =
      config.optimizer.kind == OptimizerKind::kSgd && config.optimizer.momentum > 0;
  if (config.train.mode != Mode::kBsp && config.train.local_steps == 1 && has_momentum) {
    return LrPolicy::kLive;
  }
  return LrPolicy::kListed;
}

bool HasLiveEvery(const JobConfig& config) {
  const uint32_t every =
      config.train.local_steps == 1 ? config.optimizer.every : config.outer.every;
  return LrPolicyOf(config) == LrPolicy::kListed && every == 0 &&
         ServerOptimizer(config).kind == OptimizerKind::kDelayedNesterov;
}

uint32_t WorkersOfRate(const JobConfig& config, Mode mode) {
  const bool is_taken =
      LrPolicyOf(config) == LrPolicy::kListed && mode != Mode::kBsp && !HasLiveEvery(config);
  return is_taken ? WorkersAtStart(config) : 0;
}

AgedRule RuleOfAge(float momentum, size_t steps) {
  // Not none at all: the velocity that is there has to fade.
  constexpr float kLeast = 0.01F;
  const double age = static_cast<double>(steps);
  const double left = std::max<double>(momentum - 1 + 1 / age, kLeast * momentum);
  return {(1 - left) / (1 - momentum) / age, static_cast<float>(left)};
}

float ScheduledLr(const OptimizerConfig& config, double fraction) {
  const ScheduleConfig& schedule = config.schedule;
  const double done = std::clamp(fraction, 0.0, 1.0);
  const double warmup = schedule.warmup;
  if (done < warmup) {
    return static_cast<float>(config.lr * (done / warmup));
  }
  const double progress = warmup < 1 ? (done - warmup) / (1 - warmup) : 1;
  const double end = schedule.final_factor;
  double factor = 1;
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return config.lr;
    case ScheduleKind::kStep:
      for (const float milestone : schedule.milestones) {
        factor *= done >= milestone ? schedule.step_factor : 1;
      }
      break;
    case ScheduleKind::kCosine:
      factor = end + (1 - end) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
      break;
    case ScheduleKind::kLinear:
      factor = 1 + (end - 1) * progress;
      break;
  }
  return static_cast<float>(config.lr * factor);
}

}  // namespace ps::proto
