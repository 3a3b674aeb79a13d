#include "ps/coordinator/state/mode_state.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ps/proto/exchange.h"

namespace ps::coordinator {

Status CheckSitOuts(
    const std::vector<proto::SitOutRecord>& records, const proto::MembershipState& membership) {
  const bool are_sorted =
      std::ranges::adjacent_find(
          records, std::ranges::greater_equal(), &proto::SitOutRecord::incarnation) ==
      records.end();
  const bool are_sane = std::ranges::all_of(records, [&](const proto::SitOutRecord& record) {
    return membership.members.contains(record.incarnation) && record.times > 0 &&
           record.usual_s >= 0 && std::isfinite(record.usual_s) && record.slowdown >= 0 &&
           std::isfinite(record.slowdown) && !(record.is_out && record.is_trial);
  });
  return are_sorted && are_sane
             ? Status::Ok()
             : Status::Corruption("saved state: invalid records of workers that sit out");
}

proto::ModeChoice FirstMode(const proto::JobConfig& config) {
  const bool is_ssp = config.train.mode == proto::Mode::kSsp;
  return {config.train.mode, is_ssp ? config.train.staleness_max : 0};
}

proto::StepsState FirstSteps(const proto::JobConfig& config) {
  proto::StepsState steps;
  steps.in_force = proto::StepSettingsOf(config);
  steps.wanted = steps.in_force;
  steps.chosen = proto::AutoSettingsOf(config);
  return steps;
}

Status CheckStepsState(const proto::StepsState& steps, const proto::JobConfig& config) {
  const proto::StepSettings first = proto::StepSettingsOf(config);
  const auto is_sane = [&](const proto::StepSettings& settings) {
    const bool is_push_free = !proto::IsEncodedByDevice(config);
    return (settings.local_steps > 1) == (first.local_steps > 1) &&
           (settings.local_steps > 1 || !settings.is_by_speed) &&
           (is_push_free || settings.push == first.push);
  };
  return is_sane(steps.in_force) && is_sane(steps.wanted)
             ? Status::Ok()
             : Status::Corruption("saved state: invalid settings of steps");
}

Status CheckModesState(const proto::ModesState& modes, const proto::MembershipState& membership) {
  PS_TRY(CheckSitOuts(modes.sit_outs, membership));
  const auto is_sane = [](const proto::ModeChoice& mode) {
    return mode.mode == proto::Mode::kSsp || mode.staleness_max == 0;
  };
  const bool are_switches_sane =
      modes.switches.size() <= kModeSwitchesMax &&
      std::ranges::all_of(modes.switches, [&](const proto::ModeSwitch& made) {
        return is_sane(made.to) && std::isfinite(made.at_s);
      });
  return is_sane(modes.in_force) && is_sane(modes.wanted) && are_switches_sane &&
                 modes.since <= membership.generation
             ? Status::Ok()
             : Status::Corruption("saved state: invalid modes");
}

}  // namespace ps::coordinator
