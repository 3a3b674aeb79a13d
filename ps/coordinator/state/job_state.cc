// A state that was loaded is input: whatever the parts of the coordinator take for granted is
// checked here. The same checks run on the living state in tests and the simulation.

#include "ps/coordinator/state/job_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ps/coordinator/state/evaluations.h"
#include "ps/coordinator/state/fault_schedule.h"
#include "ps/coordinator/state/ledger.h"
#include "ps/coordinator/state/membership.h"
#include "ps/coordinator/state/mode_state.h"
#include "ps/coordinator/state/placement.h"
#include "ps/coordinator/state/rollback.h"
#include "ps/coordinator/state/rounds.h"
#include "ps/coordinator/state/seats.h"

namespace ps::coordinator {
namespace {

constexpr double kStepSecondsMax = 1e7;
constexpr uint32_t kPortMax = 65535;
constexpr double kUsdMax = 1e12;
constexpr uint64_t kLaunchesOfRun = 1'000'000;
constexpr Duration kDurationMax = std::chrono::hours(24 * 365 * 100);

uint32_t ShardCount(const proto::JobConfig& config) {
  return config.servers.count * config.servers.shards_per_server;
}

bool IsSane(Duration duration) {
  return duration >= Duration::zero() && duration <= kDurationMax;
}

bool IsSane(const MemberRecord& member) {
  return member.seat.value < kSeatsMax && member.minibatch > 0 &&
         member.minibatch <= proto::kStepSamplesMax && std::isfinite(member.slowdown) &&
         member.step_seconds >= 0 && member.step_seconds <= kStepSecondsMax &&
         member.last_grant.end >= member.last_grant.begin;
}

Status CheckMembers(const JobState& state) {
  PS_TRY(CheckMembershipState(state.membership, static_cast<uint32_t>(state.shards.size())));
  const auto nonsense = [](Incarnation incarnation) {
    return Status::Corruption(fmt::format("worker {} makes no sense", incarnation.value));
  };
  for (const auto& [incarnation, member] : state.membership.members) {
    if (!IsSane(member) || member.seat.value >= state.seats.next ||
        member.last_grant.lease > state.ledger.last_lease) {
      return nonsense(incarnation);
    }
  }
  for (const auto& [incarnation, departure] : state.membership.departures) {
    if (!IsSane(departure.member) || departure.kept_for_round > state.rounds.committed + 1) {
      return nonsense(incarnation);
    }
  }
  return Status::Ok();
}

/// Whether somebody can still work on what is leased to it, or its steps are still asked for.
bool IsHolder(const JobState& state, Incarnation incarnation) {
  const auto departure = state.membership.departures.find(incarnation);
  return state.membership.members.contains(incarnation) ||
         (departure != state.membership.departures.end() && !departure->second.is_resolved);
}

Status CheckHolders(const JobState& state) {
  for (const auto& [id, lease] : state.ledger.leases) {
    if (!IsHolder(state, lease.holder)) {
      return Status::Corruption(fmt::format("lease {} has no holder", id.value));
    }
    if (lease.minibatch == 0 || lease.minibatch > proto::kStepSamplesMax) {
      return Status::Corruption(
          fmt::format("lease {} has steps of {} samples", id.value, lease.minibatch));
    }
  }
  for (const Evaluation& evaluation : state.evaluations.pending) {
    for (const EvaluationPart& part : evaluation.parts) {
      if (!part.is_done && part.lease != LeaseId() &&
          !state.membership.members.contains(part.holder)) {
        return Status::Corruption(
            fmt::format("evaluation lease {} has no holder", part.lease.value));
      }
    }
  }
  return Status::Ok();
}

/// bsp: who is in the round and has not contributed has one lease, and nobody else has any.
Status CheckRounds(const JobState& state) {
  PS_TRY(CheckRoundsState(state.rounds, static_cast<uint32_t>(state.shards.size())));
  if (state.modes.in_force.mode != proto::Mode::kBsp) {
    return state.rounds.entries.empty() && !state.rounds.commit
               ? Status::Ok()
               : Status::Corruption("a round is open, and the mode is not bsp");
  }
  size_t open = 0;
  for (const auto& [incarnation, entry] : state.rounds.entries) {
    open += entry.has_contributed ? 0 : 1;
    if (!entry.has_contributed && !IsHolder(state, incarnation)) {
      return Status::Corruption(
          fmt::format("incarnation {} can't contribute any more", incarnation.value));
    }
  }
  std::set<Incarnation> holders;
  for (const auto& [id, lease] : state.ledger.leases) {
    const auto entry = state.rounds.entries.find(lease.holder);
    if (!holders.insert(lease.holder).second || entry == state.rounds.entries.end() ||
        entry->second.has_contributed) {
      return Status::Corruption(fmt::format("lease {} is of no open round", id.value));
    }
  }
  return holders.size() == open ? Status::Ok()
                                : Status::Corruption("somebody in the open round has no lease");
}

Status CheckSeats(const JobState& state, const CoordinatorOptions& options) {
  uint32_t fired = 0;
  const FaultSchedule faults(options.config.faults, &fired);
  const proto::SeatsState& seats = state.seats;
  bool is_sane = seats.next <= kSeatsMax && state.faults_fired <= faults.faults().size();
  for (const auto& [seat, fault] : seats.added) {
    is_sane = is_sane && seat.value < seats.next && fault < state.faults_fired &&
              faults.faults()[fault].kind == proto::FaultKind::kAdd;
  }
  const size_t groups = options.config.workers.size();
  uint64_t wanted = 0;
  for (const uint32_t count : state.wanted) {
    wanted += count;
  }
  is_sane = is_sane && state.wanted.size() == groups && wanted <= kSeatsMax;
  for (const auto& [seat, group] : seats.scaled) {
    is_sane = is_sane && seat.value < seats.next && group < groups && !seats.added.contains(seat);
  }
  for (const WorkerId seat : seats.expected) {
    is_sane = is_sane && seat.value < seats.next;
  }
  is_sane = is_sane && std::ranges::includes(seats.expected, seats.returning);
  for (const auto& [seat, why] : seats.ends) {
    is_sane = is_sane && seat.value < seats.next && !seats.expected.contains(seat);
  }
  for (const auto& [seat, launch] : seats.launches) {
    is_sane = is_sane && seat.value < seats.next && launch != LaunchId();
  }
  for (const auto& [seat, kill] : state.kills) {
    is_sane = is_sane && seat.value < seats.next && IsSane(kill.due);
  }
  for (const auto& [server, handover] : state.handovers) {
    is_sane = is_sane && server < state.shards.size() / options.config.servers.shards_per_server &&
              IsSane(handover.due) && IsSane(handover.holds_until) &&
              handover.checkpoint < state.checkpoints.next;
  }
  is_sane =
      is_sane && std::ranges::is_sorted(state.places, {}, [](const proto::PlaceRecord& place) {
        return std::pair(std::string_view(place.type), std::string_view(place.zone));
      });
  for (const proto::PlaceRecord& place : state.places) {
    is_sane = is_sane && place.failures > 0 && IsSane(place.left_out_until);
  }
  is_sane = is_sane && (!state.park.is_on ||
                        (state.membership.members.empty() && !state.checkpoints.kept.empty()));
  is_sane = is_sane && state.usd >= 0 && state.usd < kUsdMax && state.traffic.usd >= 0 &&
            state.traffic.usd < kUsdMax && state.pause.checkpoint < state.checkpoints.next;
  return is_sane ? Status::Ok() : Status::Corruption("saved state: invalid seats");
}

Status CheckBest(const JobState& state) {
  const proto::CheckpointsState& checkpoints = state.checkpoints;
  const auto is_sane = [&](const proto::EpochCheckpoint& one) {
    return one.checkpoint < checkpoints.next && std::isfinite(one.score);
  };
  const bool is_taken_late =
      !checkpoints.is_best_taken || state.finish.step >= proto::FinishStep::kBest;
  return std::ranges::all_of(checkpoints.best, is_sane) &&
                 std::ranges::all_of(checkpoints.candidates, is_sane) && is_taken_late
             ? Status::Ok()
             : Status::Corruption("saved state: invalid checkpoints of best epochs");
}

/// Null: there is none. Requires: CheckPlacement has found the chunks in the order of their keys.
const proto::ChunkAssignment* FindChunk(const proto::Placement& placement, ChunkKey key) {
  const auto chunk =
      std::ranges::lower_bound(placement.chunks, key, {}, &proto::ChunkAssignment::key);
  return chunk != placement.chunks.end() && chunk->key == key ? &*chunk : nullptr;
}

Status CheckShards(const JobState& state, const CoordinatorOptions& options) {
  const uint32_t per_server = options.config.servers.shards_per_server;
  const auto count = static_cast<uint32_t>(state.shards.size());
  if (count == 0 || count > proto::kShardsMax || count % per_server != 0 ||
      state.servers.wanted == 0 || state.servers.wanted > proto::kShardsMax / per_server ||
      !AreShares(state.servers.shares, state.servers.wanted)) {
    return Status::Corruption(fmt::format(
        "{} shards, {} to a server, {} servers wanted", count, per_server, state.servers.wanted));
  }
  for (const proto::ShardRecord& shard : state.shards) {
    if (shard.port > kPortMax || (shard.is_ready && !shard.is_registered) ||
        !IsSane(shard.start_due)) {
      return Status::Corruption("a shard makes no sense");
    }
  }
  PS_TRY(CheckPlacement(state.placement, options.tensors, count));
  const auto is_sane_pin = [&](const proto::PinnedChunk& pin) {
    return pin.server < state.servers.wanted && FindChunk(state.placement, pin.key) != nullptr;
  };
  if (!std::ranges::is_sorted(state.servers.pins, {}, &proto::PinnedChunk::key) ||
      !std::ranges::all_of(state.servers.pins, is_sane_pin)) {
    return Status::Corruption("saved state: invalid pinned chunks");
  }
  if (const std::optional<proto::ChunkMove>& move = state.servers.chunks; move) {
    bool is_sane = move->version == state.placement.version + 1 && move->from != move->to &&
                   move->to.value < count && !move->keys.empty();
    for (const ChunkKey key : move->keys) {
      const proto::ChunkAssignment* const chunk = FindChunk(state.placement, key);
      is_sane = is_sane && chunk != nullptr && chunk->shard == move->from;
    }
    if (!is_sane) {
      return Status::Corruption("saved state: invalid chunks that move");
    }
  }
  return Status::Ok();
}

/// The mode in force stays so, unless the job is resumed with another one.
void TakeModes(const JobState& saved, JobState* state) {
  const Result<proto::JobConfig> before = proto::ParsePrintedJobConfig(saved.config_json);
  const proto::ModeChoice first = state->modes.in_force;
  if (before.ok() && FirstMode(*before) == first) {
    state->modes = saved.modes;
    state->modes.is_holding = false;
    state->modes.sit_outs.clear();
  } else {
    state->modes.switches = saved.modes.switches;
  }
}

/// What was changed while the job trained stays so, key by key, unless the job is resumed with
/// another value of that key.
void TakeSteps(const JobState& saved, JobState* state) {
  const Result<proto::JobConfig> before = proto::ParsePrintedJobConfig(saved.config_json);
  if (!before.ok() || !saved.steps) {
    return;
  }
  const proto::StepsState old = FirstSteps(*before);
  const proto::StepSettings& known = saved.steps->wanted;
  proto::StepsState& steps = *state->steps;
  proto::StepSettings& now = steps.in_force;
  if (now.push == old.in_force.push && steps.chosen.push == old.chosen.push) {
    now.push = known.push;
    steps.chosen.push = saved.steps->chosen.push;
  }
  if (now.pull == old.in_force.pull) {
    now.pull = known.pull;
  }
  if (now.has_feedback == old.in_force.has_feedback) {
    now.has_feedback = known.has_feedback;
  }
  if (now.local_steps == old.in_force.local_steps &&
      steps.chosen.local_steps == old.chosen.local_steps) {
    now.local_steps = known.local_steps;
    steps.chosen.local_steps = saved.steps->chosen.local_steps;
  }
  if (now.is_by_speed == old.in_force.is_by_speed && now.local_steps > 1) {
    now.is_by_speed = known.is_by_speed;
  }
  steps.wanted = now;
  steps.changes = saved.steps->changes;
  steps.since_samples = saved.steps->since_samples;
}

/// The first epoch that has begun and is not counted in full. Nothing: there is none.
std::optional<uint32_t> EpochInProgress(const proto::LedgerState& ledger, uint64_t train_samples) {
  for (uint32_t epoch = 0; epoch < ledger.epochs.size(); ++epoch) {
    const uint64_t counted = ledger.epochs[epoch].counted.size();
    if (counted < train_samples) {
      return epoch;
    }
  }
  return std::nullopt;
}

/// Those whose manifests can't be read: nobody knows what they count, so what going back to one of
/// them undoes could not be said. CheckpointDesk sets them aside.
void LeaveOutUnknown(proto::CheckpointsState* checkpoints) {
  std::erase_if(
      checkpoints->kept, [](const proto::KeptCheckpoint& kept) { return kept.shards == 0; });
}

/// Drops best epochs whose checkpoints are not there any more.
void ForgetGone(proto::CheckpointsState* checkpoints) {
  const auto is_gone = [&](const proto::EpochCheckpoint& one) {
    return std::ranges::find(
               checkpoints->kept, one.checkpoint, &proto::KeptCheckpoint::checkpoint) ==
           checkpoints->kept.end();
  };
  std::erase_if(checkpoints->best, is_gone);
  std::erase_if(checkpoints->candidates, is_gone);
}

/// What epochs are worth stays known, unless something else is to decide from now on.
void TakeBest(const JobState& saved, const CoordinatorOptions& options, JobState* state) {
  const Result<proto::JobConfig> before = proto::ParsePrintedJobConfig(saved.config_json);
  if (before.ok() && before->checkpoint.best.metric == options.config.checkpoint.best.metric) {
    state->checkpoints.best = saved.checkpoints.best;
    state->checkpoints.candidates = saved.checkpoints.candidates;
    ForgetGone(&state->checkpoints);
  }
}

/// What was trained, by a run whose workers and servers are gone. Placement and processes are this
/// run's own; as many servers have the shares that they had.
void TakeOver(const ResumeFrom& resume, uint64_t train_samples, JobState* state) {
  const JobState& saved = resume.state;
  TakeTraining(saved, state);
  if (EpochInProgress(saved.ledger, train_samples)) {
    state->data = saved.data;  // with other data its counted samples would be others
  }
  state->frozen_crc = state->frozen_crc == 0 ? saved.frozen_crc : state->frozen_crc;
  state->membership.incarnation_max = saved.membership.incarnation_max;
  state->membership.generation = saved.membership.generation;
  state->faults_fired = saved.faults_fired;
  state->counters = saved.counters;
  // Beyond all that the run has started after the checkpoint.
  state->last_launch = LaunchId((saved.last_launch.value / kLaunchesOfRun + 1) * kLaunchesOfRun);
  state->age = saved.age;
  state->usd = saved.usd;
  state->trained = saved.trained;
  TakeModes(saved, state);
  TakeSteps(saved, state);
  if (const auto& shares = saved.servers.shares;
      !shares.empty() && AreShares(shares, state->servers.wanted)) {
    state->servers.shares = shares;
    const auto shards = static_cast<uint32_t>(state->shards.size());
    state->placement =
        PlaceAgain(state->placement, ShardShares(state->servers, shards / state->servers.wanted));
    state->placement.version = 1;
  }
  uint64_t life = 0;
  for (const proto::ShardRecord& shard : saved.shards) {
    life = std::max(life, shard.life);
  }
  for (proto::ShardRecord& shard : state->shards) {
    shard.life = life + 1;
    shard.restore = {resume.checkpoint, static_cast<uint32_t>(saved.shards.size())};
  }
}

}  // namespace

JobState MakeJobState(const CoordinatorOptions& options) {
  const proto::JobConfig& config = options.config;
  JobState state;
  state.config_json = proto::PrintJobConfig(config);
  state.placement =
      PlaceChunks(options.tensors, uint64_t{config.servers.chunk_kib} << 10U, ShardCount(config));
  state.shards.resize(ShardCount(config));
  state.servers.wanted = config.servers.count;
  state.modes.in_force = FirstMode(config);
  state.modes.wanted = state.modes.in_force;
  state.steps = FirstSteps(config);
  for (const proto::WorkerGroup& group : config.workers) {
    state.wanted.push_back(group.count);
  }
  state.checkpoints.kept = options.checkpoints;
  LeaveOutUnknown(&state.checkpoints);
  state.checkpoints.next = options.next_checkpoint;
  state.frozen_crc = options.frozen_crc;
  if (options.resume) {
    TakeOver(*options.resume, options.train_samples, &state);
    TakeBest(options.resume->state, options, &state);
  }
  return state;
}

void TakeCheckpointsOf(const CoordinatorOptions& options, JobState* state) {
  proto::CheckpointsState* const checkpoints = &state->checkpoints;
  const uint64_t known = checkpoints->newest().checkpoint;
  const std::vector<proto::KeptCheckpoint> before =
      std::exchange(checkpoints->kept, options.checkpoints);
  for (proto::KeptCheckpoint& kept : checkpoints->kept) {
    const auto it = std::ranges::find(before, kept.checkpoint, &proto::KeptCheckpoint::checkpoint);
    if (kept.shards == 0 && it != before.end()) {
      kept = *it;  // its manifest can't be read any more
    }
  }
  LeaveOutUnknown(checkpoints);
  ForgetGone(checkpoints);
  checkpoints->next = std::max(checkpoints->next, options.next_checkpoint);
  checkpoints->committed += checkpoints->newest().checkpoint > known ? 1 : 0;
}

Status CheckSameOrder(
    const JobState& saved,
    const proto::JobConfig& before,
    const proto::JobConfig& now,
    uint64_t train_samples) {
  if (before.data.validation_share != now.data.validation_share) {
    return Status::InvalidArgument(fmt::format(
        "data.validation_share was {:g} and has to stay: with another share the model is measured "
        "on samples that it was trained on, and epochs have other samples; resume with "
        "data.validation_share={:g}",
        before.data.validation_share,
        before.data.validation_share));
  }
  if (before.data.validation != now.data.validation) {
    return Status::InvalidArgument(fmt::format(
        "data.validation was \"{}\" and has to stay: epochs that are measured on other samples "
        "can't be compared, and the model may have been trained on these; resume {}",
        before.data.validation,
        before.data.validation.empty() ? "without data.validation"
                                       : "with data.validation=" + before.data.validation));
  }
  const std::optional<uint32_t> epoch = EpochInProgress(saved.ledger, train_samples);
  if (before.data.validation_share > 0 && before.train.seed != now.train.seed) {
    return Status::InvalidArgument(fmt::format(
        "train.seed was {} and has to stay: it says which samples data.validation_share keeps for "
        "validation, and with another one the model is measured on samples that it was trained on",
        before.train.seed));
  }
  if (!epoch || before.train.seed == now.train.seed) {
    return Status::Ok();
  }
  return Status::InvalidArgument(fmt::format(
      "train.seed was {} and has to stay: epoch {} has begun in the order that it gives ({} of {} "
      "samples are counted), and in another order some samples would be left out and others used "
      "twice; resume with train.seed={}, and with another seed once the epoch is over (a run with "
      "train.epochs={} ends there)",
      before.train.seed,
      *epoch + 1,
      saved.ledger.epochs[*epoch].counted.size(),
      train_samples,
      before.train.seed,
      saved.ledger.epochs.size()));
}

Status CheckJobState(const JobState& state, const CoordinatorOptions& options) {
  if (state.config_json != proto::PrintJobConfig(options.config)) {
    return Status::InvalidArgument("the saved state is of a job with another config");
  }
  return CheckParts(state, options);
}

Status CheckParts(const JobState& state, const CoordinatorOptions& options) {
  const uint32_t epochs = options.config.train.epochs;
  PS_TRY(CheckShards(state, options));
  PS_TRY(CheckLedgerState(state.ledger, options.train_samples, epochs));
  PS_TRY(CheckMembers(state));
  PS_TRY(CheckEvaluationsState(
      state.evaluations,
      options.test_samples,
      options.test_samples + options.validation_samples,
      epochs,
      state.ledger.last_lease));
  PS_TRY(CheckHolders(state));
  PS_TRY(CheckModesState(state.modes, state.membership));
  if (state.steps) {
    PS_TRY(CheckStepsState(*state.steps, options.config));
  }
  PS_TRY(CheckBest(state));
  PS_TRY(CheckRounds(state));
  PS_TRY(CheckSeats(state, options));
  for (const proto::SitOutRecord& record : state.modes.sit_outs) {
    if (!IsSane(record.until)) {
      return Status::Corruption("a worker sits out for ever");
    }
  }
  bool are_finished = state.epochs_finished <= state.ledger.epochs.size();
  for (uint32_t epoch = 0; are_finished && epoch < state.epochs_finished; ++epoch) {
    are_finished = state.ledger.epochs[epoch].counted.size() == options.train_samples;
  }
  if (!are_finished || !IsSane(state.age) || !IsSane(state.checkpoints.newest_at) ||
      (state.trained && !IsSane(*state.trained))) {
    return Status::Corruption("saved state: invalid epochs or times");
  }
  return Status::Ok();
}

}  // namespace ps::coordinator
