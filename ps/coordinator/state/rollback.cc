#include "ps/coordinator/state/rollback.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/coordinator/state/ledger.h"
#include "ps/coordinator/state/membership.h"

namespace ps::coordinator {
namespace {

uint64_t SamplesOf(const proto::LedgerState& ledger) {
  uint64_t samples = 0;
  for (const EpochRecord& epoch : ledger.epochs) {
    samples += epoch.counted.size();
  }
  return samples;
}

/// What an incarnation had counted in `saved`; null: it was not there.
const MemberRecord* FindMember(const proto::MembershipState& saved, Incarnation incarnation) {
  if (const auto it = saved.members.find(incarnation); it != saved.members.end()) {
    return &it->second;
  }
  if (const auto it = saved.departures.find(incarnation); it != saved.departures.end()) {
    return &it->second.member;
  }
  const auto gone = std::ranges::find_if(saved.gone, [&](const proto::GoneWorker& worker) {
    return worker.member.incarnation == incarnation;
  });
  return gone == saved.gone.end() ? nullptr : &gone->member;
}

/// All shards begin one newer life, from this checkpoint.
void RestoreAll(const proto::KeptCheckpoint& from, JobState* state) {
  uint64_t life = 0;
  for (const proto::ShardRecord& shard : state->shards) {
    life = std::max(life, shard.life);
  }
  for (proto::ShardRecord& shard : state->shards) {
    shard.life = life + 1;
    shard.restore = {from.checkpoint, from.shards};
    shard.is_ready = false;
  }
}

/// Those who took part are waited for, in their seats.
void AwaitMembers(JobState* state) {
  for (const auto& [incarnation, member] : state->membership.members) {
    state->seats.expected.insert(member.seat);
    state->seats.returning.insert(member.seat);
    state->seats.ends.erase(member.seat);
  }
  std::erase_if(state->kills, [](const auto& entry) { return entry.second.is_sudden; });
  for (auto& [seat, kill] : state->kills) {
    kill.incarnation = Incarnation();  // whoever comes back into the seat has the notice
  }
}

/// Everybody is gone, and remembered with what still counts of his work.
void SendAway(
    const proto::MembershipState& saved, const std::string& reason, proto::MembershipState* state) {
  for (auto& [incarnation, departure] : state->departures) {
    state->gone.push_back({std::move(departure.member), departure.kind, departure.reason});
  }
  for (auto& [incarnation, member] : state->members) {
    state->gone.push_back({std::move(member), LeaveKind::kLeft, reason});
  }
  while (state->gone.size() > kGoneWorkersMax) {
    state->gone.pop_front();
    ++state->gone_before;
  }
  for (proto::GoneWorker& worker : state->gone) {
    const MemberRecord* const then = FindMember(saved, worker.member.incarnation);
    worker.member.reported = then == nullptr ? 0 : then->reported;
    worker.member.samples_counted = then == nullptr ? 0 : then->samples_counted;
  }
  state->members.clear();
  state->departures.clear();
  state->acknowledged.clear();
  ++state->generation.value;
}

}  // namespace

void TakeTraining(const JobState& saved, JobState* state) {
  const LeaseId last_lease = std::max(state->ledger.last_lease, saved.ledger.last_lease);
  state->ledger = saved.ledger;
  state->ledger.last_lease = last_lease;
  for (const auto& [id, lease] : saved.ledger.leases) {
    EpochRecord& record = state->ledger.epochs[lease.epoch];
    record.returned.Insert(lease.next, lease.end);
    record.samples_returned += lease.end - lease.next;
  }
  state->ledger.leases.clear();
  state->evaluations = saved.evaluations;
  state->evaluations.last.reset();
  std::erase_if(state->evaluations.pending, [](const proto::Evaluation& evaluation) {
    return evaluation.is_last;  // of a model that was to be left
  });
  for (proto::Evaluation& evaluation : state->evaluations.pending) {
    for (proto::EvaluationPart& part : evaluation.parts) {
      if (!part.is_done) {
        part.lease = LeaseId();
        part.holder = Incarnation();
      }
    }
  }
  state->epochs_finished = saved.epochs_finished;
  state->rounds = proto::RoundsState();
  state->rounds.committed = saved.rounds.committed;  // 0 unless the mode is bsp
  state->meter = saved.meter;
}

JobState GoBack(JobState present, const JobState* saved, const proto::KeptCheckpoint& to) {
  const JobState beginning;
  const JobState& then = saved == nullptr ? beginning : *saved;
  JobState state = std::move(present);
  proto::CheckpointsState& checkpoints = state.checkpoints;
  const auto since = [](uint64_t now, uint64_t before) { return now - std::min(now, before); };
  const uint64_t steps = since(state.counters.steps_counted, then.counters.steps_counted);
  ++checkpoints.rollbacks;
  checkpoints.steps_undone += steps;
  checkpoints.samples_undone += since(SamplesOf(state.ledger), SamplesOf(then.ledger));
  const Duration time =
      state.trained.value_or(Duration::zero()) - then.trained.value_or(Duration::zero());
  checkpoints.seconds_undone += std::max(0.0, Seconds(time));
  checkpoints.is_going_back = false;
  state.servers.chunks.reset();
  state.modes.sit_outs.clear();  // who comes back has another incarnation

  TakeTraining(then, &state);
  state.counters.steps_counted = then.counters.steps_counted;
  state.counters.samples_rejected = then.counters.samples_rejected;
  state.is_trained = false;
  state.phase = JobPhase::kStarting;
  state.finish = proto::FinishRecord();
  checkpoints.is_best_taken = false;
  AwaitMembers(&state);
  SendAway(
      then.membership,
      saved == nullptr ? "the job went back to the beginning"
                       : fmt::format("the job went back to checkpoint {}", to.checkpoint),
      &state.membership);
  RestoreAll(to, &state);
  return state;
}

Result<JobState> StateWithBest(
    const checkpoint::Manifest& manifest, JobState present, const CoordinatorOptions& options) {
  if (manifest.tensors != options.tensors) {
    return Status::Corruption("it is of another model");
  }
  PS_ASSIGN(const JobState saved, proto::DecodeJobState(manifest.job_state));
  JobState state = std::move(present);
  const proto::MembershipState members = state.membership;
  state.checkpoints.is_best_taken = true;
  state.servers.chunks.reset();
  state.modes.sit_outs.clear();  // who comes back has another incarnation
  state.rounds = proto::RoundsState();
  state.rounds.committed = saved.rounds.committed;  // as the shards have it then
  state.phase = JobPhase::kStarting;
  AwaitMembers(&state);
  SendAway(members, "the servers take the best epoch's model", &state.membership);
  RestoreAll({manifest.id, static_cast<uint32_t>(manifest.parts.size()), 0, 0}, &state);
  PS_TRY(CheckJobState(state, options));
  return state;
}

Result<JobState> StateToGoBackTo(
    const checkpoint::Manifest& manifest, JobState present, const CoordinatorOptions& options) {
  if (manifest.tensors != options.tensors) {
    return Status::Corruption("it is of another model");
  }
  PS_ASSIGN(const JobState saved, proto::DecodeJobState(manifest.job_state));
  PS_TRY(CheckLedgerState(saved.ledger, options.train_samples, options.config.train.epochs));
  const proto::KeptCheckpoint to{
      manifest.id,
      static_cast<uint32_t>(manifest.parts.size()),
      manifest.progress.steps,
      manifest.progress.samples};
  JobState state = GoBack(std::move(present), &saved, to);
  PS_TRY(CheckJobState(state, options));
  return state;
}

}  // namespace ps::coordinator
