#include "ps/coordinator/workers/silence_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace ps::coordinator {
namespace {

/// How much slower than the slowest so far a worker may be before it counts as stuck.
constexpr int kPatience = 4;
/// A limit can get shorter, and work can be owed, at any time: so often in `detect` is looked anew.
constexpr int kLooksPerDetect = 4;
/// So that no sum of a moment and a limit overflows.
constexpr Duration kLimitMax = std::chrono::hours(24 * 365);

}  // namespace

Duration SilenceWatch::SilenceLimit(const Member& member) const {
  if (member.record->is_heard || member.peer == proto::PeerId()) {
    return uses_.timing.detect;
  }
  // It opens its device, and can't talk meanwhile. While it loads its data it can, as long as that
  // takes: a limit here would end every worker of a large set again and again.
  return std::max(uses_.timing.detect, uses_.join_timeout);
}

/// How long a lease may make no progress: long enough for the slowest of those who work, since
/// under ssp and bsp one may wait for another.
Duration SilenceWatch::ProgressLimit(const Member& member) const {
  const double slowest_s = uses_.speed.slowest_s();
  Duration limit = std::max(uses_.timing.lease, FromSeconds(kPatience * slowest_s));
  const MemberRecord& record = *member.record;
  const EvaluationPart* const part = uses_.evaluations.Find(record.last_grant.lease);
  if (part != nullptr) {
    const double steps = std::ceil(
        static_cast<double>(part->end - part->begin) / static_cast<double>(record.minibatch));
    limit = std::max(limit, FromSeconds(kPatience * steps * slowest_s));
  }
  if (uses_.speed.is_anybody_warming_up()) {
    limit = std::max(limit, uses_.join_timeout);
  }
  if (member.state != proto::WorkerState::kWaiting) {
    return std::min(limit, kLimitMax);
  }
  // Whom it waits for makes a first step of so many minibatches, and tells of each.
  const auto factor = uses_.speed.is_anybody_warming_up() ? uses_.settings.local_steps : 1;
  return std::min<Duration>(limit * 2 * factor, kLimitMax);
}

SilenceWatch::Verdict SilenceWatch::Judge(const Member& member, TimePoint now) const {
  Verdict verdict;
  verdict.next = now + uses_.timing.detect / kLooksPerDetect;
  if (!member.record->is_admitted) {
    return verdict;  // it waits for us
  }
  const TimePoint silent_at = member.last_heard + std::min(SilenceLimit(member), kLimitMax);
  if (now > silent_at) {
    verdict.lost = member.peer == proto::PeerId() ? "connection lost" : "no heartbeat";
    return verdict;
  }
  verdict.next = std::min(verdict.next, silent_at);
  if (uses_.leases->IsOwingWork(member)) {
    const TimePoint stuck_at =
        std::max(member.last_progress, uses_.shards_silent_at) + ProgressLimit(member);
    if (now > stuck_at) {
      verdict.lost = fmt::format("no progress on lease {}", member.record->last_grant.lease.value);
    }
    verdict.next = std::min(verdict.next, stuck_at);
  }
  return verdict;
}

void SilenceWatch::TakeNewMembers(TimePoint now) {
  const auto& members = uses_.membership->members();
  for (auto it = members.upper_bound(newest_); it != members.end(); ++it) {
    checks_.insert({now, it->first});
    newest_ = it->first;
  }
}

void SilenceWatch::OnTick(const Call& call) {
  TakeNewMembers(call.now);
  while (!checks_.empty() && checks_.begin()->first <= call.now) {
    const Incarnation incarnation = checks_.begin()->second;
    checks_.erase(checks_.begin());
    const Member* const member = uses_.membership->Find(incarnation);
    if (member == nullptr) {
      continue;
    }
    const Verdict verdict = Judge(*member, call.now);
    if (verdict.lost.empty()) {
      checks_.insert({std::max(verdict.next, call.now + Duration(1)), incarnation});
    } else if (member->peer == proto::PeerId() && !member->record->is_heard) {
      // Its answer was lost with the connection: it has never taken part, and asks anew.
      uses_.departures->Remove(incarnation, LeaveKind::kLeft, verdict.lost, call);
    } else {
      uses_.departures->RemoveLost(incarnation, verdict.lost, call);
    }
  }
}

}  // namespace ps::coordinator
