#include "ps/proto/job/step_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "ps/base/text.h"
#include "ps/proto/exchange.h"

namespace ps::proto {
namespace {

/// What to do instead of a change while the job trains.
std::string Instead(const ConfigOverride& change) {
  const std::string& key = change.key;
  if (key == "train.mode" || key == "train.staleness_max") {
    return "psctl mode changes how far workers may drift apart";
  }
  if (key.starts_with("workers") || key == "servers.count") {
    return "psctl scale changes how many there are";
  }
  return fmt::format("psctl stop, then psctl resume --set {}={}", key, change.value);
}

/// One that could change nothing has a better answer than none.
Status CheckKey(const JobConfig& job, const ConfigOverride& change) {
  if (std::ranges::find(kSettableKeys, change.key) == kSettableKeys.end()) {
    PS_TRY(WithOverrides(job, {change}).status());  // a name that is misspelt
    return Status::InvalidArgument(fmt::format(
        "{} can't change while the job trains, and these can: {}; {}",
        change.key,
        fmt::join(kSettableKeys, ", "),
        Instead(change)));
  }
  const bool is_push = change.key == "exchange.push" || change.key == "exchange.error_feedback";
  if (is_push && IsEncodedByDevice(job)) {
    return Status::InvalidArgument(fmt::format(
        "{} says nothing while train.gradient_dtype has devices round gradients to bf16; psctl "
        "stop, then psctl resume --set train.gradient_dtype=f32 --set {}={}",
        change.key,
        change.key,
        change.value));
  }
  if (change.key.starts_with("train.local_steps") && job.train.local_steps == 1) {
    return Status::InvalidArgument(fmt::format(
        "{} can't change in a job that began with train.local_steps 1: its servers apply "
        "`optimizer` to every gradient, and with more they would apply `outer`, whose state they "
        "do not have; psctl train with train.local_steps above 1",
        change.key));
  }
  return Status::Ok();
}

/// The job whose steps begin with `now`.
JobConfig ConfigOf(const JobConfig& job, const StepChoice& now) {
  JobConfig config = job;
  config.exchange.push = now.chosen.push          ? std::string(kAutoWord)
                         : IsEncodedByDevice(job) ? job.exchange.push
                                                  : now.settings.push.ToText();
  config.exchange.pull = now.settings.pull.ToText();
  config.exchange.error_feedback = now.settings.has_feedback;
  config.train.local_steps = now.settings.local_steps;
  config.train.adapts_local_steps = now.chosen.local_steps;
  config.train.local_steps_by_speed = now.settings.is_by_speed;
  return config;
}

}  // namespace

std::string StepSettingsText(const StepSettings& to, const StepSettings& from) {
  std::vector<std::string> changed;
  const auto add = [&](size_t key, bool is_same, const std::string& value) {
    if (!is_same) {
      changed.push_back(fmt::format("{}={}", kSettableKeys.at(key), value));
    }
  };
  add(0, to.push == from.push, to.push.ToText());
  add(1, to.pull == from.pull, to.pull.ToText());
  add(2, to.has_feedback == from.has_feedback, to.has_feedback ? "true" : "false");
  add(3, to.local_steps == from.local_steps, std::to_string(to.local_steps));
  add(4, to.is_by_speed == from.is_by_speed, to.is_by_speed ? "true" : "false");
  return fmt::format("{}", fmt::join(changed, ", "));
}

Result<StepChoice> ChangeSteps(
    const JobConfig& job, const StepChoice& now, const std::vector<ConfigOverride>& changes) {
  if (changes.empty()) {
    return Status::InvalidArgument("nothing is to change; psctl set takes KEY=VALUE");
  }
  for (const ConfigOverride& change : changes) {
    PS_TRY(CheckKey(job, change));
  }
  const bool is_single = std::ranges::any_of(changes, [](const ConfigOverride& change) {
    return change.key == "train.local_steps" && change.value == "1";
  });
  if (is_single) {
    return Status::InvalidArgument(
        "train.local_steps can't become 1: the servers' rule is `outer`, which takes what steps "
        "have changed and no gradients; allowed: 2 or more");
  }
  PS_ASSIGN(const JobConfig config, WithOverrides(ConfigOf(job, now), changes));
  StepChoice next{StepSettingsOf(config), AutoSettingsOf(config)};
  if (next.chosen.push) {
    next.settings.push = now.settings.push;
  }
  if (next.chosen.local_steps) {
    next.settings.local_steps = now.settings.local_steps;
  }
  return next;
}

}  // namespace ps::proto
