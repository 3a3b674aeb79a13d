#include "ps/coordinator/workers/settings_desk.h"

#include <algorithm>
#include <utility>

namespace ps::coordinator {
namespace {

/// `auto`: how often it is looked at what was measured, and what it takes to judge by it.
constexpr Duration kLookEvery = std::chrono::seconds(5);
constexpr uint64_t kPushesMin = 4;  // of each worker, on average
constexpr double kSecondsMin = 10;  // of each

/// "exchange.push=int8, train.local_steps=auto": in what `to` differs from `from`.
std::string ChoiceText(const proto::StepChoice& to, const proto::StepChoice& from) {
  std::string text = StepSettingsText(to.settings, from.settings);
  const auto add = [&text](bool is_auto, bool was_auto, const char* key) {
    if (is_auto != was_auto) {
      text += std::string(text.empty() ? "" : ", ") + key + (is_auto ? "=auto" : " as it is");
    }
  };
  add(to.chosen.push, from.chosen.push, "exchange.push");
  add(to.chosen.local_steps, from.chosen.local_steps, "train.local_steps");
  return text;
}

}  // namespace

void SettingsDesk::On(const Call& call, const proto::SetRequest& message) {
  if (!job_->HasRole(call, proto::Role::kControl)) {
    return;
  }
  if (job_->state.phase >= JobPhase::kStopping) {
    job_->Refuse(call, StatusCode::kInvalidArgument, "the run is ending");
    return;
  }
  const proto::StepsState& steps = *job_->state.steps;
  const Result<proto::StepChoice> next =
      ChangeSteps(job_->options.config, {steps.wanted, steps.chosen}, message.changes);
  if (!next.ok()) {
    job_->Refuse(call, next.status().code(), std::string(next.status().message()));
    return;
  }
  found_short_.clear();
  Want(*next, "psctl", "");
  TakeEffect();
  job_->Reply(call, proto::SetReply{job_->StepsNow()});
}

void SettingsDesk::Want(
    const proto::StepChoice& next, const std::string& by, const std::string& why) {
  proto::StepsState& steps = job_->edit.steps;
  const proto::StepChoice before{steps.wanted, steps.chosen};
  if (next == before) {
    return;
  }
  const std::string to = ChoiceText(next, before);
  const std::string from = ChoiceText(before, next);
  const char* const when = job_->is_bsp() ? "with the next round" : "with each worker's next lease";
  constexpr auto kCode = proto::EventCode::kSettingsChanged;
  if (why.empty()) {
    job_->events.Tell(
        kCode, {{"settings", to}, {"settings_before", from}, {"when", when}, {"by", by}});
  } else {
    job_->events.Tell(
        kCode,
        {{"settings", to}, {"settings_before", from}, {"when", when}, {"by", by}, {"why", why}});
  }
  steps.wanted = next.settings;
  steps.chosen = next.chosen;
}

/// Steps take longer with more minibatches, and who waits for them is not to be taken for stuck.
void SettingsDesk::TakeEffect() {
  proto::StepsState& steps = job_->edit.steps;
  if (steps.wanted == steps.in_force || !job_->rounds.is_empty()) {
    return;
  }
  const double longer = double{1} * steps.wanted.local_steps / steps.in_force.local_steps;
  for (const auto& [incarnation, member] : job_->membership.members()) {
    if (const double before = member.record->step_seconds; before > 0 && longer != 1) {
      const double seconds = before * longer;
      job_->membership.Edit(*job_->membership.Find(incarnation)).step_seconds = seconds;
      job_->speed.NoteStep(incarnation, before, seconds);
    }
  }
  steps.in_force = steps.wanted;
  ++steps.changes;
  steps.since_samples = job_->ledger.samples_counted();
  measured_from_.clear();
}

void SettingsDesk::Advance(const Call& call) {
  if (job_->state.phase != JobPhase::kTraining) {
    return;
  }
  FollowMeasure(call.now);
  TakeEffect();
}

/// What all members have measured with the settings in force.
ExchangeMeasure SettingsDesk::Measure(uint64_t* pushes) const {
  ExchangeMeasure measure;
  for (const auto& [incarnation, from] : measured_from_) {
    const Member* const member = job_->membership.Find(incarnation);
    if (member == nullptr || member->record->stats.steps < from.steps) {
      continue;
    }
    const proto::WorkerStats& now = member->record->stats;
    measure.compute_s += now.compute_s - from.compute_s;
    measure.push_s += now.times.push_s - from.times.push_s;
    measure.pull_s += now.times.pull_s - from.times.pull_s;
    *pushes += now.steps - from.steps;
  }
  return measure;
}

void SettingsDesk::FollowMeasure(TimePoint now) {
  const proto::StepsState& steps = *job_->state.steps;
  if (steps.chosen == proto::AutoSettings() || now < next_look_ || job_->is_holding()) {
    return;
  }
  next_look_ = now + kLookEvery;
  const auto& members = job_->membership.members();
  std::erase_if(measured_from_, [&](const auto& entry) { return !members.contains(entry.first); });
  for (const auto& [incarnation, member] : members) {
    // A member's first steps include what is done once; those in hand are of what was before.
    if (member.record->stats.steps > 0) {
      measured_from_.try_emplace(incarnation, member.record->stats);
    }
  }
  uint64_t pushes = 0;
  const ExchangeMeasure measure = Measure(&pushes);
  const uint64_t workers = measured_from_.size();
  const double seconds = measure.compute_s + measure.push_s + measure.pull_s;
  if (workers == 0 || pushes < kPushesMin * workers ||
      seconds < kSecondsMin * static_cast<double>(workers)) {
    return;
  }
  const proto::TrainConfig& train = job_->options.config.train;
  const ExchangeBounds bounds{
      steps.chosen,
      AutoLocalStepsMax(job_->ledger.samples_per_epoch(), members.size(), train.minibatch),
      train.overlap && !job_->is_bsp() && !job_->is_ssp(),
      found_short_};
  if (const auto choice = ChooseExchange(steps.wanted, measure, bounds); choice) {
    if (choice->is_less) {
      found_short_.push_back(steps.wanted);
    }
    Want({choice->settings, steps.chosen}, "auto", choice->why);
  } else {
    measured_from_.clear();  // what comes is measured anew: links change
  }
}

}  // namespace ps::coordinator
