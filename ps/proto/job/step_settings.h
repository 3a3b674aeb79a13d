#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/mode_messages.h"

namespace ps::proto {

/// The keys of a job file that can change while the job trains.
inline constexpr std::array<std::string_view, 5> kSettableKeys = {
    "exchange.push",
    "exchange.pull",
    "exchange.error_feedback",
    "train.local_steps",
    "train.local_steps_by_speed"};

/// What the steps of a job have, and what of it is chosen by what is measured.
struct StepChoice {
  StepSettings settings;
  AutoSettings chosen;

  friend bool operator==(const StepChoice&, const StepChoice&) = default;
};

/// What `changes`, in their order, make of the steps of `job`, which have `now`. What becomes
/// `auto` begins with what it is. Errors: kInvalidArgument, with what to do instead: a key that
/// can't change while the job trains, no such key, a value that the job file would not take.
Result<StepChoice> ChangeSteps(
    const JobConfig& job, const StepChoice& now, const std::vector<ConfigOverride>& changes);

}  // namespace ps::proto
