#include "ps/coordinator/fleet/notice_desk.h"

#include <fmt/core.h>

#include <algorithm>

namespace ps::coordinator {
namespace {

constexpr size_t kNamesMax = 16;  // of those who take part, in an error

}  // namespace

void NoticeDesk::On(const Call& call, const proto::NoticeRequest& message) {
  if (!job_->HasRole(call, proto::Role::kControl)) {
    return;
  }
  const Duration grace = std::chrono::milliseconds(message.grace_ms);
  if (grace > kGraceMax) {
    job_->Refuse(call, StatusCode::kInvalidArgument, "the grace of a notice is at most one hour");
    return;
  }
  if (job_->state.phase >= JobPhase::kStopping) {
    job_->Refuse(
        call, StatusCode::kInvalidArgument, "the run is ending, and every worker leaves by itself");
    return;
  }
  if (message.is_server) {
    handovers_->On(call, message);
    return;
  }
  Member* const member = job_->membership.FindSeat(message.worker);
  if (member == nullptr) {
    job_->Refuse(call, StatusCode::kNotFound, WhyNobodyIsIn(message.worker));
    return;
  }
  job_->events.Tell(
      message.is_release ? proto::EventCode::kReleaseAsked : proto::EventCode::kNoticeGiven,
      {{"worker", message.worker.value}, {"grace_s", Seconds(grace)}});
  if (!message.is_release) {
    job_->Reply(call, proto::NoticeReply{GraceMillis(GiveTo(member, call.now + grace, call))});
    return;
  }
  const std::optional<uint32_t> group = job_->seats.GroupPlaceOf(message.worker);
  const bool is_counted = !member->record->is_draining && !member->record->is_notified;
  if (group && is_counted && job_->state.wanted[*group] > 0) {
    --job_->edit.wanted[*group];
  }
  job_->Reply(call, proto::NoticeReply{GraceMillis(Release(message.worker, grace, call))});
}

Duration NoticeDesk::Release(WorkerId seat, Duration grace, const Call& call) {
  Member* const member = job_->membership.FindSeat(seat);
  job_->membership.Edit(*member).is_released = true;
  return GiveTo(member, call.now + grace, call);
}

/// "there is no worker 7; these take part: 0, 2"
std::string NoticeDesk::WhyNobodyIsIn(WorkerId seat) const {
  const proto::GoneWorker* last = nullptr;
  for (const proto::GoneWorker& gone : job_->membership.gone()) {
    last = gone.member.seat == seat ? &gone : last;
  }
  bool is_gone = last != nullptr;
  std::string reason = is_gone ? last->reason : "";
  for (const auto& [incarnation, departure] : job_->membership.departures()) {
    if (departure.record->member.seat == seat) {
      is_gone = true;
      reason = departure.record->reason;
    }
  }
  std::string why = fmt::format("there is no worker {}", seat.value);
  if (job_->seats.IsExpected(seat)) {
    why = fmt::format("worker {} has not joined yet; try again in a moment", seat.value);
  } else if (is_gone) {
    why = fmt::format("worker {} takes part no more ({})", seat.value, reason);
  }
  std::string names;
  size_t count = 0;
  for (const auto& [incarnation, member] : job_->membership.members()) {
    if (++count <= kNamesMax) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", member.record->seat.value);
    }
  }
  if (count > kNamesMax) {
    names += fmt::format(" and {} more", count - kNamesMax);
  }
  return count == 0 ? why + "; nobody takes part now"
                    : fmt::format("{}; these take part: {}", why, names);
}

void NoticeDesk::Give(WorkerId seat, Duration grace, const Call& call) {
  if (Member* const member = job_->membership.FindSeat(seat); member != nullptr) {
    GiveTo(member, call.now + grace, call);
  } else if (job_->seats.IsExpected(seat)) {
    job_->EditKill(seat) = {Incarnation(), call.now + grace - job_->started_at, false, false};
    pending_[seat] = Pending();
  }
}

void NoticeDesk::Kill(WorkerId seat, const Call& call) {
  const Member* const member = job_->membership.FindSeat(seat);
  if (member != nullptr || job_->seats.IsExpected(seat)) {
    const Incarnation incarnation = member == nullptr ? Incarnation() : member->record->incarnation;
    job_->EditKill(seat) = {incarnation, call.now - job_->started_at, true, false};
    pending_[seat].is_killed = true;
  }
  job_->fleet->KillWorker(seat);
}

Duration NoticeDesk::GiveTo(Member* member, TimePoint due, const Call& call) {
  const WorkerId seat = member->record->seat;
  proto::KillRecord& kill = job_->EditKill(seat);
  const bool is_second = kill.incarnation == member->record->incarnation;
  const Duration at = due - job_->started_at;
  kill.due = is_second ? std::min(kill.due, at) : at;
  kill.incarnation = member->record->incarnation;
  kill.is_sudden = false;
  kill.is_release = member->record->is_released;
  pending_[seat] = Pending();
  RetryTimer& retry = pending_[seat].retry;
  retry = RetryTimer(job_->timing.retry_first, job_->timing.retry_limit);
  retry.Start(call.now, &job_->random);
  job_->membership.Edit(*member).is_notified = true;
  Tell(*member, kill, call);
  return DueOf(kill) - call.now;
}

void NoticeDesk::Tell(const Member& member, const proto::KillRecord& kill, const Call& call) const {
  if (member.peer != proto::PeerId()) {
    call.out->Send(
        member.peer,
        0,
        proto::Drain{
            member.record->is_released ? "release" : "notice",
            GraceMillis(DueOf(kill) - call.now)});
  }
}

void NoticeDesk::OnTick(const Call& call) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    const WorkerId seat = it->first;
    if (Advance(seat, call)) {
      ++it;
    } else {
      job_->DropKill(seat);
      it = pending_.erase(it);
    }
  }
}

bool NoticeDesk::Advance(WorkerId seat, const Call& call) {
  const proto::KillRecord& kill = job_->state.kills.at(seat);
  Member* const member = job_->membership.FindSeat(seat);
  if (kill.incarnation == Incarnation() && !kill.is_sudden && member != nullptr &&
      member->record->is_admitted) {
    job_->membership.Edit(*member).is_released = kill.is_release;
    GiveTo(member, DueOf(kill), call);
  }
  const bool is_there = kill.incarnation == Incarnation()
                            ? member != nullptr || job_->seats.IsExpected(seat)
                            : member != nullptr && member->record->incarnation == kill.incarnation;
  Pending& pending = pending_.at(seat);
  if (!is_there || pending.is_killed) {
    return false;
  }
  if (call.now >= DueOf(kill)) {
    // The record stays until the fleet has been asked: whoever follows this process asks again.
    job_->fleet->KillWorker(seat);
    pending.is_killed = true;
    return true;
  }
  RetryTimer& retry = pending.retry;
  if (member != nullptr && !member->record->is_draining && retry.IsDue(call.now)) {
    Tell(*member, kill, call);
    retry.Again(call.now, &job_->random);
  }
  return true;
}

void NoticeDesk::Resume(TimePoint now) {
  for (const auto& [seat, kill] : job_->state.kills) {
    RetryTimer& retry = pending_[seat].retry;
    retry = RetryTimer(job_->timing.retry_first, job_->timing.retry_limit);
    retry.DueAt(now);
  }
}

}  // namespace ps::coordinator
