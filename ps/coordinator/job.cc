#include "ps/coordinator/job.h"

#include <fmt/core.h>

#include <utility>

namespace ps::coordinator {
Job::Job(
    CoordinatorOptions options_in,
    JobState state_in,
    proto::FleetActions* fleet_in,
    const Logger* log_in)
    : options(std::move(options_in)),
      timing(proto::Timing::Of(options.config)),
      fleet(fleet_in),
      log(log_in),
      state(std::move(state_in)),
      ledger(&state.ledger, options.train_samples, options.config.train.epochs),
      evaluations(&state.evaluations),
      rounds(&state.rounds),
      membership(&state.membership, static_cast<uint32_t>(state.shards.size())),
      faults(options.config.faults, &state.faults_fired),
      seats(options.config, faults.faults(), &state.seats),
      shards(&state.shards, options.config.servers.shards_per_server, state.placement),
      meter(&state.meter, options.config.train.minibatch),
      divergence(options.classes),
      random(options.config.train.seed) {
  for (const auto& [incarnation, member] : membership.members()) {
    const MemberRecord& record = *member.record;
    seats.Take(record.seat);
    if (record.step_seconds > 0) {
      speed.NoteStep(incarnation, 0, record.step_seconds);
    } else if (record.last_grant.lease != LeaseId()) {
      speed.NoteWarmingUp(incarnation);
    }
  }
}

void Job::Reply(const Call& call, proto::Message message) const {
  call.out->Send(call.from, call.request_id, std::move(message));
}

void Job::Refuse(const Call& call, StatusCode code, const std::string& text, Step step) const {
  proto::Refusal refusal;
  refusal.code = code;
  refusal.message = text;
  refusal.step = step;
  Reply(call, std::move(refusal));
}

void Job::ClosePeer(proto::PeerId peer, const Call& call) {
  if (peers.Remove(peer)) {
    call.out->Close(peer);
  }
}

bool Job::HasRole(const Call& call, proto::Role role) {
  if (peers.At(call.from).role == role) {
    return true;
  }
  Refuse(call, StatusCode::kInvalidArgument, "this message is not for your role to send");
  return false;
}

void Job::RefuseConnection(const Call& call, Incarnation incarnation) {
  Refuse(
      call,
      StatusCode::kUnavailable,
      fmt::format(
          "this connection is not incarnation {}'s; connect again as that one", incarnation.value));
  ClosePeer(call.from, call);
}

Member* Job::MemberOf(const Call& call, Incarnation incarnation) {
  if (!HasRole(call, proto::Role::kWorker)) {
    return nullptr;
  }
  Member* const member = membership.Find(incarnation);
  if (member == nullptr || !member->record->is_admitted) {
    Refuse(
        call,
        StatusCode::kStale,
        fmt::format("incarnation {} takes no part (any more)", incarnation.value));
    return nullptr;
  }
  if (peers.At(call.from).incarnation != incarnation) {
    RefuseConnection(call, incarnation);
    return nullptr;
  }
  if (member->peer != call.from) {
    return nullptr;
  }
  member->last_heard = call.now;
  member->record->is_heard = true;
  return member;
}

JobState Job::StateAt(TimePoint now) const {
  JobState saved = state;
  saved.age = now - started_at;
  if (training_began) {
    saved.trained = training_ended.value_or(now) - *training_began;
  }
  saved.is_trained = training_ended.has_value();
  return saved;
}

void Job::Resume(TimePoint now) {
  started_at = now - state.age;
  no_worker_since = now;
  round_since = now;
  if (state.trained) {
    training_began = now - *state.trained;
  }
  if (state.is_trained) {
    training_ended = now;
  }
  for (auto& [incarnation, member] : membership.members()) {
    member.since = now;
    member.last_heard = now;
    member.last_heartbeat = now;
    member.last_progress = now;
    member.last_step = now;
  }
  for (auto& [incarnation, departure] : membership.departures()) {
    departure.since = now;
  }
  for (Shard& shard : shards.all()) {
    shard.last_heard = now;
    shard.lost_at = training_began && !shard.record->is_ready ? now : TimePoint();
  }
}

}  // namespace ps::coordinator
