#include "ps/coordinator/fleet/prewarm_desk.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

namespace ps::coordinator {
namespace {

/// After so long without a notice the machine is as good as any other.
constexpr Duration kRiskLasts = std::chrono::minutes(10);

}  // namespace

std::vector<uint32_t> PrewarmDesk::ExtraNow(TimePoint now) {
  std::vector<uint32_t> extra(extra_.size());
  const proto::FleetConfig& fleet = job_->options.config.fleet;
  if (!fleet.prewarm || !fleet.replace || job_->state.phase != JobPhase::kTraining) {
    return extra;
  }
  std::map<Incarnation, TimePoint> since;
  uint64_t room = job_->MembersMax();  // under bsp for gradients
  room -= std::min(
      room, std::accumulate(job_->state.wanted.begin(), job_->state.wanted.end(), uint64_t{0}));
  for (const auto& [incarnation, member] : job_->membership.members()) {
    const MemberRecord& record = *member.record;
    if (!record.is_at_risk || record.is_draining || record.is_notified) {
      continue;  // who is told to leave is replaced anyway
    }
    const std::optional<uint32_t> group = job_->seats.GroupPlaceOf(record.seat);
    if (!group) {
      continue;
    }
    const auto known = since_.find(incarnation);
    const TimePoint began = known == since_.end() ? now : known->second;
    since[incarnation] = began;
    if (now - began < kRiskLasts && extra[*group] == 0 && room > 0) {
      extra[*group] = 1;
      --room;
    }
  }
  since_ = std::move(since);
  return extra;
}

bool PrewarmDesk::OnTick(const Call& call) {
  const std::vector<uint32_t> before = std::exchange(extra_, ExtraNow(call.now));
  bool is_less = false;
  for (uint32_t group = 0; group < extra_.size(); ++group) {
    is_less = is_less || extra_[group] < before[group];
    if (extra_[group] > before[group]) {
      job_->events.Tell(
          proto::EventCode::kPrewarm, {{"type", job_->options.config.workers[group].type}});
      is_checkpoint_due_ = checkpoints_->is_on();
    }
  }
  if (is_checkpoint_due_) {
    is_checkpoint_due_ = checkpoints_->OpenNow(call) == 0;
  }
  return is_less;
}

}  // namespace ps::coordinator
