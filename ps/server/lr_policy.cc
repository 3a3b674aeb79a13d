#include "ps/server/lr_policy.h"

#include <algorithm>
#include <cmath>

#include "ps/proto/job/optimizer_rules.h"

namespace ps::server {

LrPolicy::LrPolicy(const proto::JobConfig& config) : kind_(proto::LrPolicyOf(config)) {
  reference_workers_ = proto::WorkersListed(config);
  is_nobody_listed_ = proto::WorkersAtStart(config) == 0;
  mode_ = config.train.mode;
  other_factor_ = config.train.switch_lr_factor;
  if (other_factor_ == 0) {
    // A round makes one step with the mean of the gradients, the others make one with each, which
    // kLive knows already.
    const double others = kind_ == proto::LrPolicy::kLive ? 1 : reference_workers_;
    other_factor_ = mode_ == proto::Mode::kBsp ? 1 / others : others;
  }
  momentum_factor_ = config.train.switch_momentum_factor;
  if (config.train.local_steps == 1 && config.optimizer.kind == proto::OptimizerKind::kSgd) {
    momentum_ = config.optimizer.momentum;
  }
  is_every_live_ = proto::HasLiveEvery(config);
  if (config.train.lr_ramp_steps > 0) {
    change_max_ = std::exp2(1.0 / config.train.lr_ramp_steps);
  }
  // With overlap a step is computed while the answer to the last one travels.
  answers_behind_ = config.train.overlap ? 1 : 0;
}

double LrPolicy::Target(size_t workers) const {
  const auto live = static_cast<double>(std::max<size_t>(workers, 1));
  switch (kind_) {
    case proto::LrPolicy::kLinear:
      return live / reference_workers_;
    case proto::LrPolicy::kSqrtLive:
      return 1 / std::sqrt(live);
    case proto::LrPolicy::kAuto:
    case proto::LrPolicy::kFixed:
    case proto::LrPolicy::kLive:
    case proto::LrPolicy::kStaleness:
    case proto::LrPolicy::kListed:
      break;
  }
  return 1;
}

double LrPolicy::FleetFactor(size_t workers) const {
  const double target = Target(workers);
  if (change_max_ == 0 || factor_ == 0) {
    return target;
  }
  return std::clamp(target, factor_ / change_max_, factor_ * change_max_);
}

proto::AgedRule LrPolicy::RuleOf(proto::Mode mode, size_t workers) const {
  if (mode != proto::Mode::kBsp && kind_ == proto::LrPolicy::kListed && !is_every_live_ &&
      !is_nobody_listed_) {
    const auto live = static_cast<double>(std::max<size_t>(workers, 1));
    return {std::min(1.0, reference_workers_ / live), momentum_};
  }
  if (mode == proto::Mode::kBsp || kind_ != proto::LrPolicy::kLive) {
    return {1, momentum_};
  }
  return proto::RuleOfAge(momentum_, std::max<size_t>(workers, 1) * (1 + answers_behind(mode)));
}

float LrPolicy::MomentumFactor(proto::Mode mode, size_t workers) const {
  const float factor = IsOther(mode) ? momentum_factor_ : 1.0F;
  return momentum_ > 0 ? factor * RuleOf(mode, workers).momentum / momentum_ : factor;
}

double LrPolicy::FactorOf(proto::Mode mode, size_t workers, uint64_t missed_steps) const {
  if (kind_ != proto::LrPolicy::kStaleness) {
    return Factor(mode, workers);
  }
  return ModeFactor(mode) / static_cast<double>(std::max<uint64_t>(missed_steps, 1));
}

}  // namespace ps::server
