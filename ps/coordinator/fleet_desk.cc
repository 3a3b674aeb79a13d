#include "ps/coordinator/fleet_desk.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "ps/coordinator/wanted.h"

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
  if (job_->state.phase >= JobPhase::kStopping) {
    job_->Refuse(
        call, StatusCode::kInvalidArgument, "the run is ending, and every worker leaves by itself");
    return;
  }
  Result<std::vector<uint32_t>> wanted = WantedAfter(
      job_->options.config.workers, job_->state.wanted, message.changes, job_->options.seats_max);
  const Result<ServersWanted> servers = servers_->WantedAfter(message.changes);
  const Status fits = !wanted.ok()    ? wanted.status()
                      : !servers.ok() ? servers.status()
                                      : CheckWanted(*wanted);
  if (!fits.ok()) {
    job_->Refuse(call, fits.code(), std::string(fits.message()));
    return;
  }
  servers_->Want(*servers, call);
  if (std::ranges::any_of(message.changes, IsOfWorkers)) {
    Want(std::move(wanted).value(), call);
  }
  job_->Reply(call, proto::ScaleReply{job_->FleetRows(call.now), job_->ServersNow()});
}

void FleetDesk::Want(std::vector<uint32_t> wanted, const Call& call) {
  job_->log->Info(
      "scaled", {{"workers_before", SumOf(job_->state.wanted)}, {"workers", SumOf(wanted)}});
  if (SumOf(wanted) > SumOf(job_->state.wanted)) {
    park_->Wake("more workers are wanted", call);
  }
  job_->edit.wanted = std::move(wanted);
  job_->seats.ForgetFailures();  // whoever asks may have mended why
  job_->places.Forget();
  waiting_.clear();
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
  if (job_->shards.are_all_ready() && sum > job_->MembersMax()) {
    return Status::InvalidArgument(fmt::format(
        "under bsp the shards have room for the gradients of {} workers, and that would be {}; "
        "raise servers.queue_mib or use more shards",
        job_->MembersMax(),
        sum));
  }
  return Status::Ok();
}

bool FleetDesk::IsNothingLeftToLease() const {
  return job_->is_all_leased() && !job_->evaluations.HasWork();
}

/// A launcher may start a process that never comes and never ends. Whoever does not join within
/// fleet.join_timeout_s gives its seat back. After a restart of the coordinator the time begins
/// anew.
void FleetDesk::GiveUpAbsent(const Call& call) {
  const auto limit = FromSeconds(static_cast<double>(job_->options.config.fleet.join_timeout_s));
  std::erase_if(awaited_, [this](const auto& awaited) {
    return !job_->seats.IsExpected(awaited.first) ||
           job_->membership.FindSeat(awaited.first) != nullptr;
  });
  for (const WorkerId seat : std::set<WorkerId>(job_->seats.expected())) {
    if (job_->membership.FindSeat(seat) != nullptr) {
      continue;  // it has joined, and asks for its first lease later
    }
    const TimePoint since = awaited_.try_emplace(seat, call.now).first->second;
    if (call.now - since >= limit) {
      job_->log->Warning(
          "worker_never_joined", {{"worker", seat.value}, {"waited_s", Seconds(limit)}});
      job_->seats.Cancel(seat);
      job_->fleet->KillWorker(seat);
      job_->places.NoteFailure(
          seat,
          Places::Cause::kPlace,
          fmt::format("no worker came within {:g} s (fleet.join_timeout_s)", Seconds(limit)),
          call.now);
    }
  }
}

void FleetDesk::OnTick(const Call& call) {
  const bool is_training = job_->state.phase == JobPhase::kTraining;
  // Where the job has gone back, seats are kept for those who had them.
  const bool is_first_start =
      job_->state.phase == JobPhase::kStarting && !job_->training_began.has_value();
  if (is_training) {
    GiveUpAbsent(call);
  }
  if (!is_training && !is_first_start) {
    return;
  }
  is_emptying_ = prewarm_->OnTick(call) || is_emptying_;
  const bool is_replacing = job_->options.config.fleet.replace;
  if (!is_replacing && !is_filling_ && !is_emptying_) {
    return;
  }
  const std::vector<GroupSeating> seatings = job_->Seatings();
  if (is_emptying_) {
    Empty(seatings, call);
    is_emptying_ = false;
  }
  if ((is_replacing || is_filling_) && !IsNothingLeftToLease()) {
    is_filling_ = !Fill(seatings, call);
  }
}

bool FleetDesk::Fill(const std::vector<GroupSeating>& seatings, const Call& call) {
  bool are_all_started = true;
  is_limited_ = false;
  for (uint32_t group = 0; group < seatings.size(); ++group) {
    const size_t there = seatings[group].size();
    const uint32_t wanted = prewarm_->WantedOf(group);
    if (there < wanted) {
      const uint32_t missing = wanted - static_cast<uint32_t>(there);
      are_all_started = FillGroup(group, seatings[group], missing, call) && are_all_started;
    }
  }
  if (!is_limited_) {
    job_->places.EndPass(std::exchange(taken_, {}), call.now, &job_->random);
  }
  return are_all_started;
}

/// Says why not, once.
bool FleetDesk::MayStart(uint32_t group, uint32_t missing, const Call& call) {
  const proto::WorkerGroup& settings = job_->options.config.workers[group];
  if (const auto wait = job_->places.WaitOf(settings, call.now)) {
    if (wait->is_left_out && waiting_.insert(group).second) {
      job_->log->Warning(
          "fleet_waits",
          {{"type", settings.type},
           {"missing", missing},
           {"seconds", Seconds(wait->wait)},
           {"why", wait->why}});
    }
    return false;
  }
  is_limited_ = is_limited_ || !limit_.Take(call.now);
  return !is_limited_;
}

bool FleetDesk::FillGroup(
    uint32_t group, const GroupSeating& seating, uint32_t missing, const Call& call) {
  for (uint32_t i = 0; i < missing; ++i) {
    const bool is_vacant = i < seating.vacant.size();
    if (!is_vacant && job_->seats.size() >= job_->options.seats_max) {
      if (waiting_.insert(group).second) {
        job_->log->Warning(
            "no_seat_left", {{"seats", job_->seats.size()}, {"missing", missing - i}});
      }
      return true;
    }
    if (!MayStart(group, missing - i, call)) {
      return false;
    }
    const WorkerId seat = is_vacant ? seating.vacant[i] : job_->seats.AddScaled(group);
    awaited_[seat] = call.now;
    const std::string& type = job_->seats.GroupOf(seat).type;
    const std::string zone = job_->StartWorker(seat, call.now);
    taken_.emplace(type, zone);
    job_->log->Info(
        "fleet_start",
        {{"worker", seat.value},
         {"type", type},
         {"zone", zone},
         {"reason",
          fmt::format(
              "{} are wanted, {} are there or on the way",
              prewarm_->WantedOf(group),
              seating.size() + i)}});
  }
  waiting_.erase(group);
  return true;
}

/// Those who have not joined go first, then those who sit out of the rounds, then the highest
/// seats: the first ones stay.
void FleetDesk::Empty(const std::vector<GroupSeating>& seatings, const Call& call) {
  for (uint32_t group = 0; group < seatings.size(); ++group) {
    const GroupSeating& seating = seatings[group];
    const size_t wanted = prewarm_->WantedOf(group);
    size_t surplus = seating.size() - std::min(seating.size(), wanted);
    for (auto it = seating.coming.rbegin(); it != seating.coming.rend() && surplus > 0; ++it) {
      job_->log->Info("fleet_cancel", {{"worker", it->value}});
      job_->seats.Cancel(*it);
      job_->fleet->KillWorker(*it);
      --surplus;
    }
    std::vector<WorkerId> present;
    std::vector<WorkerId> out;
    for (const WorkerId seat : seating.present) {
      const Member* const member = job_->membership.FindSeat(seat);
      const bool is_out = member != nullptr && job_->SitsOut(member->record->incarnation);
      (is_out ? out : present).push_back(seat);
    }
    present.insert(present.end(), out.begin(), out.end());
    for (auto it = present.rbegin(); it != present.rend() && surplus > 0; ++it) {
      job_->log->Info("fleet_release", {{"worker", it->value}});
      notices_->Release(*it, kReleaseGrace, call);
      --surplus;
    }
  }
}

}  // namespace ps::coordinator
