#include "ps/coordinator/workers/sit_outs.h"

#include <fmt/core.h>

#include <algorithm>

namespace ps::coordinator {
namespace {

constexpr Duration kFollowEvery = std::chrono::seconds(1);

bool IsOut(const proto::SitOutRecord& record) {
  return record.is_out;
}

}  // namespace

void SitOuts::Follow(TimePoint now) {
  if (looked_ == TimePoint{}) {
    Restore();
  } else if (now - looked_ < kFollowEvery) {
    return;
  }
  looked_ = now;
  job_->stragglers.Look(now);
  JudgeTrials(now);
  KeepHalf();
  LeaveOutStraggler(now);
  BeginTrials(now);
}

/// A coordinator that goes on knows of those who sit out what was saved, and of nobody else
/// anything. A step that it did not see begin tells nothing, so trials begin again.
void SitOuts::Restore() {
  for (proto::SitOutRecord& record : job_->edit.modes.sit_outs) {
    if (record.is_trial) {
      record.is_trial = false;
      record.is_out = true;
      leases_->Track(record.incarnation);
    }
    if (record.is_out) {
      job_->stragglers.Restore(record.incarnation, record.usual_s);
    }
  }
}

void SitOuts::JudgeTrials(TimePoint now) {
  for (proto::SitOutRecord& record : job_->edit.modes.sit_outs) {
    const std::optional<double> slowdown =
        record.is_trial ? job_->stragglers.TrialSlowdown(record.incarnation) : std::nullopt;
    if (!slowdown) {
      continue;
    }
    if (*slowdown < StragglerWatch::kFactorOver) {
      TakeBack(&record, "its step on trial was as quick as usual");
    } else {
      LeaveOut(&record, *slowdown, now);
    }
  }
}

/// Who is on trial may sit out again at once.
int64_t SitOuts::Room() const {
  const auto works = [](const Member& member) {
    return member.record->is_admitted && !member.record->is_draining;
  };
  const auto& members = job_->membership.members();
  const auto working =
      std::ranges::count_if(members, [&](const auto& entry) { return works(entry.second); });
  const auto out =
      std::ranges::count_if(job_->state.modes.sit_outs, [&](const proto::SitOutRecord& record) {
        return (record.is_out || record.is_trial) &&
               works(*job_->membership.Find(record.incarnation));
      });
  return working / 2 - out;
}

/// Others have left: the quickest of those who sit out take their place.
void SitOuts::KeepHalf() {
  auto& records = job_->edit.modes.sit_outs;
  for (auto count = std::ranges::count_if(records, IsOut); count > 0 && Room() < 0; --count) {
    proto::SitOutRecord* best = nullptr;
    for (proto::SitOutRecord& record : records) {
      if (record.is_out && (best == nullptr || record.slowdown < best->slowdown)) {
        best = &record;
      }
    }
    TakeBack(best, "too few others are left");
  }
}

void SitOuts::LeaveOutStraggler(TimePoint now) {
  const StragglerWatch& watch = job_->stragglers;
  const Incarnation straggler = watch.straggler();
  const Member* const member = job_->membership.Find(straggler);
  if (!watch.is_straggling() || watch.slowdown() <= StragglerWatch::kFactor || member == nullptr ||
      member->record->is_draining || Room() < 1) {
    return;
  }
  auto& records = job_->edit.modes.sit_outs;
  auto record = std::ranges::lower_bound(records, straggler, {}, &proto::SitOutRecord::incarnation);
  if (record == records.end() || record->incarnation != straggler) {
    record = records.insert(record, {.incarnation = straggler});
  }
  record->usual_s = watch.UsualOf(straggler);
  LeaveOut(&*record, watch.slowdown(), now);
}

void SitOuts::BeginTrials(TimePoint now) {
  for (proto::SitOutRecord& record : job_->edit.modes.sit_outs) {
    if (record.is_out && now >= job_->started_at + record.until &&
        !job_->ledger.HasLease(record.incarnation)) {
      record.is_out = false;
      record.is_trial = true;
      job_->stragglers.Try(record.incarnation);
      leases_->Track(record.incarnation);
    }
  }
}

void SitOuts::LeaveOut(proto::SitOutRecord* record, double slowdown, TimePoint now) {
  const Duration least = FromSeconds(kStepsOut * slowdown * record->usual_s);
  const Duration rest = std::max(kFirst, least) * (1 << std::min(record->times, kDoublings));
  record->is_out = true;
  record->is_trial = false;
  ++record->times;
  record->slowdown = slowdown;
  record->until = now + rest - job_->started_at;
  job_->stragglers.SetAside(record->incarnation);
  leases_->Track(record->incarnation);
  job_->events.Tell(
      proto::EventCode::kWorkerSitsOut,
      {{"worker", job_->membership.Find(record->incarnation)->record->seat.value},
       {"slowdown", fmt::format("{:.1f}", slowdown)},
       {"seconds", std::lround(Seconds(rest))},
       {"times", record->times}});
}

void SitOuts::TakeBack(proto::SitOutRecord* record, const std::string& why) {
  record->is_out = false;
  record->is_trial = false;
  job_->stragglers.TakeBack(record->incarnation);
  leases_->Track(record->incarnation);
  job_->events.Tell(
      proto::EventCode::kWorkerBackInRounds,
      {{"worker", job_->membership.Find(record->incarnation)->record->seat.value}, {"why", why}});
}

void SitOuts::EndAll(const std::string& why) {
  for (proto::SitOutRecord& record : job_->edit.modes.sit_outs) {
    if (record.is_out || record.is_trial) {
      TakeBack(&record, why);
    }
  }
  job_->edit.modes.sit_outs.clear();
}

}  // namespace ps::coordinator
