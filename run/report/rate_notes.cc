#include "run/report/rate_notes.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "ps/base/text.h"
#include "ps/proto/job/optimizer_rules.h"

namespace ps::run {
namespace {

/// The job as it trains in another mode than its own: the policy and the rates stay those of the
/// job's mode.
proto::JobConfig InMode(const proto::JobConfig& config, proto::Mode mode) {
  proto::JobConfig now = config;
  now.train.lr_policy = proto::LrPolicyOf(config);
  now.train.mode = mode;
  const bool is_other = (mode == proto::Mode::kBsp) != (config.train.mode == proto::Mode::kBsp);
  if (is_other && config.train.switch_lr_factor > 0) {
    now.optimizer.lr *= config.train.switch_lr_factor;
  }
  return now;
}

/// What becomes of an optimizer where gradients are of values that are some steps old; empty: it
/// is taken as it is, and that is well.
std::string OldGradientsNote(const proto::JobConfig& config, uint32_t workers) {
  const proto::OptimizerConfig& optimizer = config.optimizer;
  const bool has_overlap = config.train.mode == proto::Mode::kAsync && config.train.overlap;
  const uint32_t steps = workers * (has_overlap ? 2 : 1);
  if (config.train.mode == proto::Mode::kBsp || steps <= 1 || config.train.local_steps > 1 ||
      optimizer.momentum == 0) {
    return "";
  }
  const std::string_view mode = proto::kModeNames[static_cast<size_t>(config.train.mode)];
  switch (proto::LrPolicyOf(config)) {
    case proto::LrPolicy::kLive: {
      const proto::AgedRule rule = proto::RuleOfAge(optimizer.momentum, steps);
      return fmt::format(
          "{} with {}: gradients are of values about {} old, so the servers "
          "take rate {:.2g} and momentum {:.2g} for rate {:.2g} and momentum {:.2g} "
          "(train.lr_policy live)",
          mode,
          Plural(workers, "worker"),
          Plural(steps - 1, "step"),
          optimizer.lr * rule.lr_factor,
          rule.momentum,
          optimizer.lr,
          optimizer.momentum);
    }
    case proto::LrPolicy::kFixed:
      if (workers == 1) {
        return "";
      }
      return fmt::format(
          "{} with momentum {} and train.lr_policy fixed: gradients of several workers are of "
          "values that are some steps old, so what suits a plain loop may learn less or diverge; "
          "train.lr_policy live or train.mode bsp is safer (docs/measurements/scripts.md)",
          mode,
          optimizer.momentum);
    default:
      return "";
  }
}

/// Why an outer rule with a momentum of each push is none for workers that do not wait; or empty.
std::string OuterMomentumNote(const proto::JobConfig& config) {
  const proto::OptimizerConfig outer = proto::ServerOptimizer(config);
  if (config.train.local_steps == 1 || config.train.mode == proto::Mode::kBsp ||
      proto::WorkersAtStart(config) == 1 || outer.kind != proto::OptimizerKind::kSgd ||
      outer.momentum == 0) {
    return "";
  }
  return fmt::format(
      "outer.kind {} in {}: every push of every worker moves the momentum of {:g}, so training may "
      "diverge with several; delayed_nesterov, which auto is, and heloco are made for that",
      outer.nesterov ? "nesterov" : "sgd",
      proto::kModeNames[static_cast<size_t>(config.train.mode)],
      outer.momentum);
}

}  // namespace

std::vector<std::string> RateNotes(const proto::JobConfig& config) {
  std::vector<std::string> notes;
  for (std::string note :
       {OuterMomentumNote(config), OldGradientsNote(config, proto::WorkersAtStart(config))}) {
    if (!note.empty()) {
      notes.push_back(std::move(note));
    }
  }
  return notes;
}

std::string RateNote(const proto::JobConfig& config, proto::Mode mode, uint32_t workers) {
  const uint32_t listed = proto::WorkersAtStart(config);
  const proto::LrPolicy policy = proto::LrPolicyOf(config);
  if (mode == proto::Mode::kBsp || workers <= listed || listed == 0 ||
      proto::HasLiveEvery(config)) {
    return "";
  }
  if (policy == proto::LrPolicy::kListed) {
    return fmt::format(
        "gradients of {} workers are older than those of the {} that the job lists, so the servers "
        "take {}/{} of the learning rate (train.lr_policy listed): more samples a second, each of "
        "which moves the parameters less",
        workers,
        listed,
        listed,
        workers);
  }
  if (policy == proto::LrPolicy::kFixed) {
    return fmt::format(
        "gradients of {} workers are older than those of the {} that the job lists, and with "
        "train.lr_policy fixed the loss may jump",
        workers,
        listed);
  }
  return OldGradientsNote(InMode(config, mode), workers);
}

}  // namespace ps::run
