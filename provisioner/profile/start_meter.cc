#include "provisioner/profile/start_meter.h"

#include <algorithm>
#include <utility>

namespace ps::provisioner {

void StartMeter::Begin(const proto::WorkerStart& start) {
  Pending& pending = pending_[start.launch];
  pending = Pending();
  pending.start = start;
}

void StartMeter::End(LaunchId launch) {
  const auto it = pending_.find(launch);
  if (it == pending_.end()) {
    return;
  }
  if (it->second.joined) {
    Keep(SampleOf(it->second));
  }
  pending_.erase(it);
}

void StartMeter::Look(
    const std::map<Incarnation, proto::MemberRecord>& members,
    proto::RunState state,
    TimePoint now) {
  if (state == proto::RunState::kTraining && !training_since_) {
    training_since_ = now;
  }
  if (pending_.empty()) {
    return;
  }
  const bool is_idle = state == proto::RunState::kPaused || state == proto::RunState::kWaiting;
  for (const auto& [incarnation, member] : members) {
    const auto it = pending_.find(member.launch);
    if (it == pending_.end()) {
      continue;
    }
    Note(&it->second, member, is_idle, now);
    if (member.samples_counted > 0) {
      proto::StartSample sample = SampleOf(it->second);
      sample.step_s = StepSeconds(it->second, now);
      Keep(std::move(sample));
      pending_.erase(it);
    }
  }
}

void StartMeter::Note(
    Pending* pending, const proto::MemberRecord& member, bool is_idle, TimePoint now) const {
  pending->joined = pending->joined.value_or(now);
  if (member.has_asked) {
    pending->ready = pending->ready.value_or(now);
    pending->is_interrupted = pending->is_interrupted || is_idle;
  }
}

/// Without the time in which it was ready and the others were not there yet.
double StartMeter::StepSeconds(const Pending& pending, TimePoint now) const {
  if (pending.is_interrupted) {
    return 0;
  }
  const TimePoint ready = pending.ready.value_or(now);
  const TimePoint began = training_since_.value_or(now);
  return Seconds(now - pending.start.asked - std::max(began - ready, Duration::zero()));
}

proto::StartSample StartMeter::SampleOf(const Pending& pending) const {
  const proto::WorkerStart& start = pending.start;
  proto::StartSample sample;
  sample.instance_type = start.type;
  sample.zone = start.zone;
  sample.launcher = launcher_;
  sample.machine_s = start.machine_up ? Seconds(*start.machine_up - start.asked) : 0;
  sample.join_s = Seconds(*pending.joined - start.asked);
  return sample;
}

void StartMeter::Keep(proto::StartSample sample) {
  if (done_.size() == kStartsMax) {
    done_.pop_front();
  }
  done_.push_back(std::move(sample));
}

std::vector<proto::StartSample> StartMeter::Starts() const {
  std::vector<proto::StartSample> starts(done_.begin(), done_.end());
  for (const auto& [launch, pending] : pending_) {
    if (pending.joined) {
      starts.push_back(SampleOf(pending));
    }
  }
  return starts;
}

}  // namespace ps::provisioner
