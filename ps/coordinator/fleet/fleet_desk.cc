#include "ps/coordinator/fleet/fleet_desk.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <variant>

#include "ps/base/overloaded.h"
#include "ps/coordinator/fleet/wanted.h"

namespace ps::coordinator {
namespace {

/// What a worker gets to finish its step and to leave when the fleet is made smaller.
constexpr Duration kReleaseGrace = std::chrono::seconds(60);

uint64_t SumOf(const std::vector<uint32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

}  // namespace

FleetDesk::FleetDesk(
    Job* job, NoticeDesk* notices, ServersDesk* servers, PrewarmDesk* prewarm, ParkDesk* park)
    : job_(job),
      notices_(notices),
      servers_(servers),
      prewarm_(prewarm),
      park_(park),
      limit_(static_cast<double>(job->options.config.fleet.starts_per_s)) {}

void FleetDesk::On(const Call& call, const proto::ScaleRequest& message) {
  if (!job_->HasRole(call, proto::Role::kControl)) {
    return;
  }
  const std::string by = job_->peers.At(call.from).node;
  Result<proto::ScaleReply> reply = Scale(message.changes, by, call);
  if (reply.ok()) {
    job_->Reply(call, std::move(reply).value());
  } else {
    job_->Refuse(call, reply.status().code(), std::string(reply.status().message()));
  }
}

Result<proto::ScaleReply> FleetDesk::Scale(
    const std::vector<proto::ScaleChange>& changes, const std::string& by, const Call& call) {
  if (job_->state.phase >= JobPhase::kStopping || job_->is_finishing()) {
    return Status::InvalidArgument("the run is ending, and every worker leaves by itself");
  }
  PS_ASSIGN(
      std::vector<uint32_t> wanted,
      WantedAfter(
          job_->options.config.workers, job_->state.wanted, changes, job_->options.seats_max));
  PS_ASSIGN(const ServersWanted servers, servers_->WantedAfter(changes));
  PS_TRY(CheckWanted(wanted));
  servers_->Want(servers, by, call);
  if (std::ranges::any_of(changes, IsOfWorkers)) {
    Want(std::move(wanted), by, call);
  }
  return proto::ScaleReply{job_->FleetRows(call.now), job_->ServersNow()};
}

void FleetDesk::Want(std::vector<uint32_t> wanted, const std::string& by, const Call& call) {
  job_->events.Tell(
      proto::EventCode::kScaled,
      {{"workers_before", SumOf(job_->state.wanted)}, {"workers", SumOf(wanted)}, {"by", by}});
  if (SumOf(wanted) > SumOf(job_->state.wanted)) {
    park_->Wake("more workers are wanted", call);
  }
  job_->edit.wanted = std::move(wanted);
  job_->seats.ForgetFailures();  // whoever asks may have mended why
  job_->places.Forget();
  told_.clear();
  taken_.clear();
  is_filling_ = true;
  is_emptying_ = true;
}

Status FleetDesk::CheckWanted(const std::vector<uint32_t>& wanted) const {
  const uint64_t sum = SumOf(wanted);
  if (sum > job_->options.seats_max) {
    return Status::InvalidArgument(
        fmt::format("that would be {} workers; allowed: {} in all", sum, job_->options.seats_max));
  }
  const uint64_t room = job_->MembersMax(LargestBytesToCome(*job_));
  if (job_->shards.are_all_ready() && sum > room) {
    return Status::InvalidArgument(fmt::format(
        "under bsp the shards have room for the gradients of {} workers, and that would be {}; "
        "raise servers.queue_mib or use more shards",
        room,
        sum));
  }
  return Status::Ok();
}

bool FleetDesk::IsNothingLeftToLease() const {
  return job_->is_all_leased() && !job_->evaluations.HasWork();
}

void FleetDesk::OnTick(const Call& call) {
  const bool is_training = job_->state.phase == JobPhase::kTraining && !job_->is_finishing();
  // Where the job has gone back, seats are kept for those who had them.
  const bool is_first_start =
      job_->state.phase == JobPhase::kStarting && !job_->training_began.has_value();
  if (!is_training && !is_first_start) {
    return;
  }
  is_emptying_ = prewarm_->OnTick(call) || is_emptying_;
  while (true) {
    const DesiredFleet desired = Desired();
    const ObservedFleet observed = Observe(desired, call.now);
    const std::vector<FleetAction> actions = Reconcile(desired, observed);
    if (!GaveUp(actions, call)) {
      Act(desired, actions, call);
      return;
    }
  }
}

DesiredFleet FleetDesk::Desired() const {
  const proto::FleetConfig& fleet = job_->options.config.fleet;
  DesiredFleet desired;
  for (uint32_t group = 0; group < job_->options.config.workers.size(); ++group) {
    desired.workers.push_back(prewarm_->WantedOf(group));
  }
  desired.may_start = (fleet.replace || is_filling_) && !IsNothingLeftToLease();
  desired.may_release = is_emptying_;
  desired.seats_max = job_->options.seats_max;
  desired.join_timeout = FromSeconds(static_cast<double>(fleet.join_timeout_s));
  return desired;
}

ObservedFleet FleetDesk::Observe(const DesiredFleet& desired, TimePoint now) {
  ObservedFleet observed;
  observed.now = now;
  if (job_->state.phase == JobPhase::kTraining) {
    NoteAwaited(now);
    observed.awaited = awaited_;
  }
  if (!desired.may_start && !desired.may_release) {
    return observed;
  }
  observed.seats = job_->seats.size();
  observed.starts_allowed = limit_.Allowed(now);
  std::vector<GroupSeating> seatings = job_->Seatings();
  for (uint32_t group = 0; group < seatings.size(); ++group) {
    GroupSeating& seating = seatings[group];
    ObservedGroup& seen = observed.groups.emplace_back();
    for (const WorkerId seat : seating.present) {
      if (job_->SitsOut(job_->membership.FindSeat(seat)->record->incarnation)) {
        seen.sitting_out.insert(seat);
      }
    }
    seen.coming = std::move(seating.coming);
    seen.present = std::move(seating.present);
    seen.vacant = std::move(seating.vacant);
    seen.places = job_->places.KeysOf(job_->options.config.workers[group]);
    job_->places.AddTo(&observed.places, seen.places);
  }
  return observed;
}

/// Who has joined asks for its first lease later. After a restart of the coordinator the time
/// begins anew.
void FleetDesk::NoteAwaited(TimePoint now) {
  const auto has_joined = [this](WorkerId seat) {
    return job_->membership.FindSeat(seat) != nullptr;
  };
  std::erase_if(awaited_, [&](const auto& awaited) {
    return !job_->seats.IsExpected(awaited.first) || has_joined(awaited.first);
  });
  for (const WorkerId seat : job_->seats.expected()) {
    if (!has_joined(seat)) {
      awaited_.try_emplace(seat, now);
    }
  }
}

/// A launcher may start a process that never comes and never ends.
bool FleetDesk::GaveUp(const std::vector<FleetAction>& actions, const Call& call) {
  bool is_any = false;
  for (const FleetAction& action : actions) {
    if (const auto* const absent = std::get_if<GiveUp>(&action)) {
      is_any = true;
      job_->events.Tell(
          proto::EventCode::kWorkerNeverJoined,
          {{"worker", absent->seat.value}, {"waited_s", Seconds(absent->waited)}});
      job_->seats.Cancel(absent->seat);
      job_->fleet->KillWorker(absent->seat);
      job_->places.NoteFailure(absent->seat, Places::Cause::kPlace, absent->why, call.now);
    }
  }
  return is_any;
}

void FleetDesk::Act(
    const DesiredFleet& desired, const std::vector<FleetAction>& actions, const Call& call) {
  std::set<uint32_t> filled;
  uint32_t starts = 0;
  bool is_limited = false;
  bool is_waiting = false;
  const auto start = [&](const Start& action) {
    ++starts;
    filled.insert(action.group);
    StartOne(action, call);
  };
  const auto wait = [&](const Wait& action) {
    filled.erase(action.group);
    is_limited = is_limited || action.what == Wait::For::kRate;
    is_waiting = is_waiting || action.what != Wait::For::kSeat;
    Say(action);
  };
  for (const FleetAction& action : actions) {
    std::visit(
        Overloaded{
            start,
            wait,
            [&](const Cancel& surplus) {
              job_->events.Tell(proto::EventCode::kFleetCancel, {{"worker", surplus.seat.value}});
              job_->seats.Cancel(surplus.seat);
              job_->fleet->KillWorker(surplus.seat);
            },
            [&](const Release& surplus) {
              job_->events.Tell(proto::EventCode::kFleetRelease, {{"worker", surplus.seat.value}});
              notices_->Release(surplus.seat, kReleaseGrace, call);
            },
            [](const GiveUp& /*absent*/) {}},
        action);
  }
  is_emptying_ = false;
  for (const uint32_t group : filled) {
    told_.erase(group);
  }
  if (starts > 0 || is_limited) {
    limit_.Take(starts, call.now);
  }
  if (desired.may_start) {
    is_filling_ = is_waiting;
    if (!is_limited) {
      job_->places.EndPass(std::exchange(taken_, {}), call.now, &job_->random);
    }
  }
}

void FleetDesk::StartOne(const Start& action, const Call& call) {
  const WorkerId seat = action.seat ? *action.seat : job_->seats.AddScaled(action.group);
  awaited_[seat] = call.now;
  taken_.insert(action.place);
  job_->StartWorkerIn(seat, action.place, call.now);
  const auto& [type, zone] = action.place;
  job_->events.Tell(
      proto::EventCode::kFleetStart,
      {{"worker", seat.value}, {"type", type}, {"zone", zone}, {"reason", action.reason}});
}

/// Once, until the group has all its workers or somebody asks for others.
void FleetDesk::Say(const Wait& action) {
  const bool is_said = action.what == Wait::For::kSeat ||
                       (action.what == Wait::For::kPlace && action.place.is_left_out);
  if (!is_said || !told_.insert(action.group).second) {
    return;
  }
  if (action.what == Wait::For::kSeat) {
    job_->events.Tell(
        proto::EventCode::kNoSeatLeft,
        {{"seats", job_->seats.size()}, {"missing", action.missing}});
  } else {
    job_->events.Tell(
        proto::EventCode::kFleetWaits,
        {{"type", job_->options.config.workers[action.group].type},
         {"missing", action.missing},
         {"seconds", Seconds(action.place.wait)},
         {"why", action.place.why}});
  }
}

}  // namespace ps::coordinator
