#pragma once

#include "ps/proto/codec/field_list.h"
#include "ps/proto/codec/member_fields.h"
#include "ps/proto/codec/saved_views.h"
#include "ps/proto/limits.h"
#include "ps/proto/state/job_state.h"

// The fields of a job's saved state, in the order of job_state.fbs. Private to the codec.

namespace ps::proto {

/// What of a JobState is in its table.
enum StatePart : uint32_t {
  kConfigPart = 1U << 0,
  kPlacementPart = 1U << 1,
  kTotalsPart = 1U << 2,  // with the newest numbers, which are in the tables of other parts
  kTimesPart = 1U << 3,
  kShardsPart = 1U << 4,
  kMembershipPart = 1U << 5,
  kSeatsPart = 1U << 6,
  kLedgerPart = 1U << 7,
  kEvaluationsPart = 1U << 8,
  kRoundsPart = 1U << 9,
  kKillsPart = 1U << 10,
  kPolicyPart = 1U << 11,
  kEventsPart = 1U << 12,
};

constexpr FieldLimits OfParts(uint32_t parts, FieldLimits limits) {
  limits.parts = parts;
  return limits;
}

template <uint32_t kParts, FieldName kName, typename T, FieldLimits kLimits>
constexpr FieldRef<kName, T, OfParts(kParts, kLimits)> In(FieldRef<kName, T, kLimits> field) {
  return {field.value};
}

// Entries of maps as they are saved: the key, then the value.

struct OpenEntry {
  Incarnation incarnation;
  RoundEntry entry;
};

struct PlannedKill {
  WorkerId seat;
  KillRecord kill;
};

struct PlannedHandover {
  uint32_t server = 0;
  HandoverRecord handover;
};

template <MaybeConst<TrainLease> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"lease">(m.lease),
      Field<"holder">(m.holder),
      Field<"begin">(m.begin),
      Field<"end">(m.end),
      Field<"next">(m.next),
      Field<"epoch">(m.epoch),
      Field<"minibatch">(m.minibatch));
}

template <MaybeConst<EpochRecord> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"fresh">(m.fresh),
      RangesOf<"returned">(m.returned),
      RangesOf<"counted">(m.counted),
      Field<"samples_returned">(m.samples_returned));
}

template <MaybeConst<LedgerState> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"last_lease">(m.last_lease),
      Field<"epochs">(m.epochs),
      Values<"leases">(m.leases, [](const TrainLease& l) { return l.lease; }));
}

template <MaybeConst<EvaluationPart> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"begin">(m.begin),
      Field<"end">(m.end),
      Field<"lease">(m.lease),
      Field<"holder">(m.holder),
      Field<"loss_sum">(m.loss_sum),
      Field<"correct">(m.correct),
      Field<"is_done">(m.is_done));
}

template <MaybeConst<Evaluation> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"epoch">(m.epoch),
      Field<"parts">(m.parts),
      Field<"sums">(m.sums),
      Field<"is_last">(m.is_last));
}

template <MaybeConst<ResultFigures> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"epoch">(m.epoch), First<"figures", kFiguresMax>(m.figures));
}

template <MaybeConst<EvaluationsState> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"pending">(m.pending),
      Field<"results">(m.results),
      Field<"figures">(m.figures),
      Field<"last">(m.last),
      First<"last_figures", kFiguresMax>(m.last_figures));
}

template <MaybeConst<OpenEntry> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"step">(m.entry.step),
      Field<"worker">(m.entry.worker),
      Field<"samples">(m.entry.samples),
      Field<"has_contributed">(m.entry.has_contributed),
      Field<"is_rejected">(m.entry.is_rejected));
}

template <MaybeConst<RoundsState> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"committed">(m.committed),
      Entries<"entries", OpenEntry>(m.entries),
      Field<"commit">(m.commit),
      Field<"acks">(m.acks));
}

template <MaybeConst<RunData> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"fingerprint">(m.fingerprint), Field<"worker">(m.worker));
}

template <MaybeConst<PlannedKill> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"seat">(m.seat),
      Field<"incarnation">(m.kill.incarnation),
      Field<"due_ns">(m.kill.due),
      Field<"is_sudden">(m.kill.is_sudden),
      Field<"is_release">(m.kill.is_release));
}

template <MaybeConst<PlannedHandover> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"server">(m.server),
      Field<"due_ns">(m.handover.due),
      Field<"checkpoint">(m.handover.checkpoint),
      Field<"holds_until_ns">(m.handover.holds_until));
}

template <MaybeConst<PauseRecord> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"is_on">(m.is_on), Field<"checkpoint">(m.checkpoint));
}

template <MaybeConst<JobCounters> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"steps_counted">(m.steps_counted),
      Field<"steps_lost">(m.steps_lost),
      Field<"steps_partial">(m.steps_partial),
      Field<"samples_rejected">(m.samples_rejected),
      Field<"revocations_noticed">(m.revocations_noticed),
      Field<"revocations_unnoticed">(m.revocations_unnoticed),
      Field<"joins">(m.joins));
}

template <MaybeConst<MeterState> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"loss">(m.loss), Field<"accuracy">(m.accuracy), Field<"has_step">(m.has_step));
}

template <MaybeConst<KeptCheckpoint> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"checkpoint">(m.checkpoint), Field<"steps">(m.steps), Field<"shards">(m.shards));
}

template <MaybeConst<EpochCheckpoint> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"checkpoint">(m.checkpoint), Field<"score">(m.score), Field<"epoch">(m.epoch));
}

template <MaybeConst<CheckpointsState> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"next">(m.next),
      Field<"kept">(m.kept),
      Field<"committed">(m.committed),
      Field<"failed">(m.failed),
      Field<"skipped">(m.skipped),
      Field<"shards_restored">(m.shards_restored),
      Field<"steps_undone">(m.steps_undone),
      Field<"rollbacks">(m.rollbacks),
      Field<"samples_undone">(m.samples_undone),
      Field<"seconds_undone">(m.seconds_undone),
      Field<"damaged">(m.damaged),
      Text<"damage", kTextBytesMax>(m.damage),
      Field<"is_going_back">(m.is_going_back),
      Field<"newest_at_ns">(m.newest_at),
      Column<"kept_samples", &KeptCheckpoint::samples>(m.kept),
      Field<"candidates">(m.candidates),
      Field<"best">(m.best),
      Field<"is_best_taken">(m.is_best_taken));
}

template <MaybeConst<ChunkMove> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"version">(m.version), Field<"from">(m.from), Field<"to">(m.to), Field<"keys">(m.keys));
}

template <MaybeConst<PinnedChunk> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"key">(m.key), Field<"server">(m.server));
}

template <MaybeConst<ServersState> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"wanted">(m.wanted),
      Field<"moves">(m.moves),
      Text<"trouble", kTextBytesMax>(m.trouble),
      Field<"is_spreading">(m.is_spreading),
      Field<"chunks">(m.chunks),
      Field<"settled_by">(m.settled_by),
      Field<"shares">(m.shares),
      Field<"gone_life">(m.gone_life),
      Field<"pins">(m.pins));
}

template <MaybeConst<SitOutRecord> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"usual_s">(m.usual_s),
      Field<"slowdown">(m.slowdown),
      Field<"until_ns">(m.until),
      Field<"times">(m.times),
      Field<"is_out">(m.is_out),
      Field<"is_trial">(m.is_trial));
}

template <MaybeConst<ModesState> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"in_force">(m.in_force),
      Field<"wanted">(m.wanted),
      Field<"is_wanted_by_policy">(m.is_wanted_by_policy),
      Field<"is_holding">(m.is_holding),
      Field<"since">(m.since),
      Field<"is_policy_over">(m.is_policy_over),
      Field<"switches">(m.switches),
      Field<"sit_outs">(m.sit_outs));
}

template <MaybeConst<StepsState> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"in_force">(m.in_force),
      Field<"wanted">(m.wanted),
      Field<"chosen">(m.chosen),
      Field<"changes">(m.changes),
      Field<"since_samples">(m.since_samples));
}

template <MaybeConst<ParkRecord> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"is_on">(m.is_on));
}

template <MaybeConst<PlaceRecord> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Text<"type", kTextBytesMax>(m.type),
      Text<"zone", kTextBytesMax>(m.zone),
      Field<"failures">(m.failures),
      Field<"times_left_out">(m.times_left_out),
      Field<"is_program">(m.is_program),
      Field<"left_out_until_ns">(m.left_out_until),
      Text<"why", kTextBytesMax>(m.why));
}

template <MaybeConst<EventsState> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"last">(m.last), Field<"before">(m.before));
}

template <MaybeConst<PolicyRecord> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"available">(m.available),
      Field<"has_wanted">(m.has_wanted),
      Field<"spot">(m.spot),
      Field<"on_demand">(m.on_demand),
      Field<"hand_until_s">(m.hand_until_s));
}

template <MaybeConst<FinishRecord> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"step">(m.step), Field<"is_early">(m.is_early), Text<"why", kTextBytesMax>(m.why));
}

template <MaybeConst<TrafficRecord> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"pushed_bytes">(m.pushed_bytes),
      Field<"pulled_bytes">(m.pulled_bytes),
      Field<"usd">(m.usd));
}

template <MaybeConst<JobState> M>
auto ListFields(M& m, auto&& list) {
  return list(
      In<kConfigPart>(WholeText<"config_json", kConfigBytesMax>(m.config_json)),
      In<kTotalsPart>(Field<"phase">(m.phase)),
      In<kTotalsPart>(CodeOf<"outcome">(m.outcome)),
      In<kTotalsPart>(MessageOf<"outcome_message", kTextBytesMax>(m.outcome)),
      In<kTotalsPart>(Text<"stop_reason", kTextBytesMax>(m.stop_reason)),
      In<kTotalsPart>(Text<"leave_reason", kTextBytesMax>(m.leave_reason)),
      In<kTotalsPart>(Field<"is_told_shards">(m.is_told_shards)),
      In<kTotalsPart>(Field<"restarts">(m.restarts)),
      In<kPlacementPart>(Field<"placement">(m.placement)),
      In<kShardsPart>(Field<"shards">(m.shards)),
      In<kMembershipPart | kTotalsPart>(Field<"membership">(m.membership)),
      In<kSeatsPart | kTotalsPart>(Field<"seats">(m.seats)),
      In<kLedgerPart | kTotalsPart>(Field<"ledger">(m.ledger)),
      In<kEvaluationsPart>(Field<"evaluations">(m.evaluations)),
      In<kTotalsPart>(Field<"epochs_finished">(m.epochs_finished)),
      In<kRoundsPart | kTotalsPart>(Field<"rounds">(m.rounds)),
      In<kTotalsPart>(Field<"faults_fired">(m.faults_fired)),
      In<kKillsPart>(Entries<"kills", PlannedKill>(m.kills)),
      In<kTotalsPart>(Field<"meter">(m.meter)),
      In<kTotalsPart>(Field<"counters">(m.counters)),
      In<kTimesPart>(Field<"age_ns">(m.age)),
      In<kTimesPart>(Field<"trained_ns">(m.trained)),
      In<kTimesPart>(Field<"is_trained">(m.is_trained)),
      In<kTotalsPart>(Field<"is_model_due">(m.model.is_due)),
      In<kTotalsPart>(Text<"model_file", kTextBytesMax>(m.model.file)),
      In<kTotalsPart>(Text<"model_problem", kTextBytesMax>(m.model.problem)),
      In<kTotalsPart>(Field<"data">(m.data)),
      In<kTotalsPart>(Field<"checkpoints">(m.checkpoints)),
      In<kTotalsPart>(Field<"wanted">(m.wanted)),
      In<kTotalsPart>(Entries<"handovers", PlannedHandover>(m.handovers)),
      In<kTotalsPart>(Field<"servers">(m.servers)),
      In<kTotalsPart>(Optional<"pause">(m.pause)),
      In<kTimesPart>(Field<"usd">(m.usd)),
      In<kTotalsPart>(Field<"modes">(m.modes)),
      In<kTotalsPart>(Optional<"park">(m.park)),
      In<kTotalsPart>(Field<"places">(m.places)),
      In<kTotalsPart>(Field<"last_launch">(m.last_launch)),
      In<kPolicyPart>(Optional<"policy">(m.policy)),
      In<kEventsPart | kTotalsPart>(Optional<"events">(m.events)),
      In<kTotalsPart>(Optional<"steps">(m.steps)),
      In<kTotalsPart>(Optional<"finish">(m.finish)),
      In<kTotalsPart>(Field<"frozen_crc">(m.frozen_crc)),
      In<kTotalsPart>(Optional<"traffic">(m.traffic)),
      In<kTimesPart>(Field<"clock_ns">(m.clock)));
}

}  // namespace ps::proto
