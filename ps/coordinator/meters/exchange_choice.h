#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ps/proto/mode_messages.h"

namespace ps::coordinator {

/// Where the time of all workers went with the settings in force, in seconds.
struct ExchangeMeasure {
  double compute_s = 0;
  double push_s = 0;  // nothing was computed, and gradients were on their way
  double pull_s = 0;  // and parameters were

  /// The share of computing in what depends on the exchange; 0: nothing was measured.
  double computing() const;
};

/// What may be chosen.
struct ExchangeBounds {
  proto::AutoSettings chosen;
  uint32_t local_steps_max = 1;
  /// Computing hides some of the exchange, so that nobody knows what a larger one would take.
  bool is_overlapping = false;
  /// With these, or as much exchange, workers were seen not to compute for long enough, whatever
  /// the reckoning says: that is not tried again.
  std::vector<proto::StepSettings> found_short{};
};

struct ExchangeChoice {
  proto::StepSettings settings;
  bool is_less = false;  // exchange than now: it is too much
  std::string why;
};

/// exchange.push and train.local_steps `auto`: the fewest local steps, then the mildest encoding of
/// f32, bf16 and int8, with which workers would compute for 95 % of the time; int4 where nothing
/// else reaches that. It reckons that the time of a push follows its bytes, and that of an exchange
/// does not depend on the local steps. Nothing: `now` is right, or so near that a change would not
/// be worth it. Pure; docs/exchange.md has the rule for people.
std::optional<ExchangeChoice> ChooseExchange(
    const proto::StepSettings& now, const ExchangeMeasure& measure, const ExchangeBounds& bounds);

/// Most local steps that are chosen: 128, and not more than leave each of `workers` 20 pushes in an
/// epoch, nor more than a step can have. At least 2.
uint32_t AutoLocalStepsMax(uint64_t epoch_samples, uint64_t workers, uint32_t minibatch);

}  // namespace ps::coordinator
