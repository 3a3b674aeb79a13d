#include "provisioner/profile/share_search.h"

#include <algorithm>
#include <cmath>

#include "ps/base/status.h"
#include "ps/proto/job/optimizer_rules.h"

namespace ps::provisioner {
namespace {

/// A share that is no binary fraction must not make a round more.
constexpr double kRounding = 1e-9;

/// How many times the learning rate of single steps rounds have, where the job does not say it. The
/// policy `live` makes of the rate of rounds what single steps need.
double FactorOfRounds(proto::LrPolicy policy, const proto::JobConfig& job) {
  return policy == proto::LrPolicy::kLive ? 1 : proto::WorkersListed(job);
}

}  // namespace

SwitchedSteps StepsOfShare(double share, uint64_t steps, uint32_t workers) {
  PS_CHECK(workers > 0);
  const double all = static_cast<double>(steps);
  SwitchedSteps out;
  out.rounds = static_cast<uint64_t>(std::ceil(share * all / workers * (1 - kRounding)));
  out.steps = steps - std::min(steps, out.rounds * workers);
  return out;
}

proto::JobConfig WithShare(const proto::JobConfig& job, double share) {
  proto::JobConfig config = job;
  proto::TrainConfig& train = config.train;
  const bool was_bsp = job.train.mode == proto::Mode::kBsp;
  const proto::LrPolicy policy = proto::LrPolicyOf(job);
  if (!was_bsp) {
    PS_CHECK(train.switch_momentum_factor == 1);
    const auto factor = static_cast<double>(train.switch_lr_factor);
    config.optimizer.lr = static_cast<float>(
        static_cast<double>(config.optimizer.lr) *
        (factor > 0 ? factor : FactorOfRounds(policy, job)));
    train.switch_lr_factor = factor > 0 ? static_cast<float>(1 / factor) : 0;
  }
  train.mode = proto::Mode::kBsp;
  if (proto::LrPolicyOf(config) != policy) {
    train.lr_policy = policy;  // `auto` of bsp is another one
  }
  if (share >= 1) {
    train.mode_policy = proto::ModePolicy::kFixed;
    train.overlap = false;
    return config;
  }
  if (!proto::LooksAtStragglers(train.mode_policy)) {
    train.mode_policy = proto::ModePolicy::kSyncSwitch;
  }
  train.switch_at = static_cast<float>(share);
  if (was_bsp && job.train.mode_policy == proto::ModePolicy::kFixed) {
    // bsp ignores `overlap`; use the default here.
    train.overlap = config.optimizer.clip_norm == 0 && train.local_steps == 1;
  }
  return config;
}

proto::JobConfig ShareRun(const proto::JobConfig& job, double share, uint32_t repeat) {
  proto::JobConfig config = WithShare(job, share);
  config.train.seed += repeat;
  config.train.evaluate_every_epochs = 0;
  config.train.stop_early = {};
  config.checkpoint.best = {};
  config.faults.clear();
  config.checkpoint.enabled = false;
  config.run.stop_at_loss = 0;
  config.run.port = 0;
  config.servers.launch = true;
  config.servers.port = 0;
  return config;
}

std::optional<double> ShareSearch::Next() const {
  if (done_ == 0) {
    return 1;
  }
  return done_ <= tries_ ? std::optional((least_ + most_) / 2) : std::nullopt;
}

bool ShareSearch::Add(std::optional<double> accuracy) {
  const std::optional<double> share = Next();
  PS_CHECK(share.has_value() && (done_ > 0 || accuracy.has_value()));
  if (done_++ == 0) {
    reference_ = *accuracy;
    return true;
  }
  const bool is_good = accuracy && *accuracy >= reference_ - tolerance_;
  (is_good ? most_ : least_) = *share;
  return is_good;
}

}  // namespace ps::provisioner
