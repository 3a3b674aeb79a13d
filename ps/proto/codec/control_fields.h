#pragma once

#include "ps/proto/codec/field_list.h"
#include "ps/proto/limits.h"
#include "ps/proto/messages.h"

// The fields of the messages by which people see and change a run. Private to the codec.

namespace ps::proto {

template <MaybeConst<LedgerRow> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"epoch">(m.epoch),
      Field<"samples_total">(m.samples_total),
      Field<"samples_counted">(m.samples_counted),
      Field<"samples_leased">(m.samples_leased),
      Field<"samples_returned">(m.samples_returned));
}

template <MaybeConst<EvaluationRow> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"epoch">(m.epoch),
      Field<"accuracy">(m.accuracy),
      Field<"loss">(m.loss),
      Field<"samples">(m.samples),
      Field<"at_s">(m.at_s));
}

template <MaybeConst<WorkerRow> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"worker">(m.worker),
      Field<"incarnation">(m.incarnation),
      Field<"state">(m.state),
      Text<"host", kNameBytesMax>(m.host),
      Field<"pid">(m.pid),
      Field<"minibatch">(m.minibatch),
      Field<"slowdown">(m.slowdown),
      Field<"stats">(m.stats),
      Field<"lease">(m.lease),
      Field<"clock">(m.clock),
      Field<"staleness">(m.staleness),
      Field<"silent_s">(m.silent_s),
      Field<"samples_counted">(m.samples_counted),
      Field<"steps_late">(m.stats.steps_late),
      Text<"reason", kNameBytesMax>(m.reason),
      Text<"device", kDeviceBytesMax>(m.device),
      Text<"type", kNameBytesMax>(m.type),
      Field<"usd_per_hour">(m.usd_per_hour),
      Field<"age_s">(m.age_s),
      Field<"times">(m.stats.times));
}

template <MaybeConst<ShardRow> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"shard">(m.shard),
      Text<"address", kNameBytesMax>(m.address),
      Field<"pid">(m.pid),
      Field<"state">(m.state),
      Field<"stats">(m.stats),
      Field<"received_bytes_per_s">(m.received_bytes_per_s),
      Field<"sent_bytes_per_s">(m.sent_bytes_per_s));
}

template <MaybeConst<CheckpointStatus> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"is_on">(m.is_on),
      Field<"newest">(m.newest),
      Field<"age_s">(m.age_s),
      Field<"open">(m.open),
      Field<"committed">(m.committed),
      Field<"failed">(m.failed),
      Field<"skipped">(m.skipped),
      Text<"trouble", kTextBytesMax>(m.trouble),
      Field<"shards_restored">(m.shards_restored),
      Field<"steps_undone">(m.steps_undone),
      Field<"sizes">(m.sizes),
      Field<"rollbacks">(m.rollbacks),
      Field<"samples_undone">(m.samples_undone),
      Field<"seconds_undone">(m.seconds_undone),
      Field<"damaged">(m.damaged),
      Text<"damage", kTextBytesMax>(m.damage),
      Field<"best">(m.best),
      Field<"best_epoch">(m.best_epoch),
      Field<"best_score">(m.best_score),
      Text<"best_metric", kNameBytesMax>(m.best_metric),
      Field<"is_best_left">(m.is_best_left));
}

template <MaybeConst<TrafficStatus> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"usd">(m.usd), Field<"usd_per_hour">(m.usd_per_hour), Field<"bytes">(m.bytes));
}

template <MaybeConst<JournalStatus> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"is_on">(m.is_on),
      Field<"restarts">(m.restarts),
      Field<"failures">(m.failures),
      Text<"trouble", kTextBytesMax>(m.trouble));
}

template <MaybeConst<CopyStatus> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Text<"target", kTextBytesMax>(m.target),
      Field<"newest">(m.newest),
      Field<"copied">(m.copied),
      Field<"failed">(m.failed),
      Field<"sent_bytes">(m.sent_bytes),
      Text<"trouble", kTextBytesMax>(m.trouble));
}

template <MaybeConst<PinnedPart> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Text<"tensor", kNameBytesMax>(m.tensor), Field<"chunk">(m.chunk), Field<"server">(m.server));
}

template <MaybeConst<ServersStatus> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"count">(m.count),
      Field<"wanted">(m.wanted),
      Field<"is_moving">(m.is_moving),
      Field<"moves">(m.moves),
      Text<"trouble", kTextBytesMax>(m.trouble),
      Field<"shares">(m.shares),
      Field<"pinned">(m.pinned),
      Field<"chunks_pinned">(m.chunks_pinned));
}

template <MaybeConst<ModeSwitch> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"mode">(m.to.mode),
      Field<"staleness_max">(m.to.staleness_max),
      Field<"at_s">(m.at_s),
      Field<"samples">(m.samples),
      Field<"is_policy">(m.is_policy));
}

template <MaybeConst<AutoSettings> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"push">(m.push), Field<"local_steps">(m.local_steps));
}

template <MaybeConst<StepsStatus> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"in_force">(m.in_force),
      Field<"wanted">(m.wanted),
      Field<"chosen">(m.chosen),
      Field<"changes">(m.changes),
      Field<"since_samples">(m.since_samples));
}

template <MaybeConst<ModesStatus> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"in_force">(m.in_force),
      Field<"wanted">(m.wanted),
      Field<"is_switching">(m.is_switching),
      Field<"switches">(m.switches));
}

template <MaybeConst<EventRow> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"number">(m.number),
      Field<"unix_s">(m.unix_s),
      Field<"code">(m.code),
      Field<"kind">(m.kind),
      Text<"text", kTextBytesMax>(m.text),
      Text<"by", kNameBytesMax>(m.by),
      Text<"why", kTextBytesMax>(m.why),
      Text<"others", kTextBytesMax>(m.others));
}

template <MaybeConst<FleetRow> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Text<"type", kNameBytesMax>(m.type),
      Field<"wanted">(m.wanted),
      Field<"present">(m.present),
      Field<"waiting">(m.waiting),
      Field<"wait_s">(m.wait_s),
      Text<"why", kStatusWaitBytesMax>(m.why));
}

template <MaybeConst<JobStatus> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Text<"name", kNameBytesMax>(m.name),
      Text<"run_directory", kTextBytesMax>(m.run_directory),
      Field<"state">(m.state),
      Text<"detail", kTextBytesMax>(m.detail),
      Field<"mode">(m.mode),
      Field<"epochs">(m.epochs),
      Field<"samples_total">(m.samples_total),
      Field<"samples_counted">(m.samples_counted),
      Field<"samples_rejected">(m.samples_rejected),
      Field<"steps_counted">(m.steps_counted),
      Field<"steps_lost">(m.steps_lost),
      Field<"steps_partial">(m.steps_partial),
      Field<"revocations_noticed">(m.revocations_noticed),
      Field<"revocations_unnoticed">(m.revocations_unnoticed),
      Field<"joins">(m.joins),
      Field<"elapsed_s">(m.elapsed_s),
      Field<"samples_per_s">(m.samples_per_s),
      Field<"eta_s">(m.eta_s),
      Field<"train_loss">(m.train_loss),
      Field<"train_accuracy">(m.train_accuracy),
      Field<"generation">(m.generation),
      Field<"round">(m.round),
      Field<"max_detect_s">(m.max_detect_s),
      Field<"workers">(m.workers),
      Field<"shards">(m.shards),
      Field<"ledger">(m.ledger),
      Field<"evaluations">(m.evaluations),
      Field<"waits">(m.waits),
      Text<"model_file", kTextBytesMax>(m.model_file),
      Text<"model_problem", kTextBytesMax>(m.model_problem),
      Field<"workers_wanted">(m.workers_wanted),
      Field<"server_max_detect_s">(m.server_max_detect_s),
      Field<"checkpoints">(m.checkpoints),
      Field<"journal">(m.journal),
      Field<"copies">(m.copies),
      Field<"fleet">(m.fleet),
      Field<"servers">(m.servers),
      Field<"usd_spent">(m.usd_spent),
      Field<"usd_per_hour">(m.usd_per_hour),
      Field<"events">(m.events),
      Field<"modes">(m.modes),
      Field<"has_diverged">(m.has_diverged),
      Field<"steps">(m.steps),
      First<"figures", kFiguresMax>(m.figures),
      Field<"metric">(m.metric),
      Field<"validation_samples">(m.validation_samples),
      Field<"has_last_evaluation">(m.has_last_evaluation),
      Text<"stopped_early", kTextBytesMax>(m.stopped_early),
      Field<"traffic">(m.traffic));
}

template <MaybeConst<StatusRequest> M>
auto ListFields(M& /*m*/, auto&& list) {
  return list();
}

template <MaybeConst<StatusReply> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"status">(m.status));
}

template <MaybeConst<StopRequest> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"is_immediate">(m.is_immediate));
}

template <MaybeConst<StopReply> M>
auto ListFields(M& /*m*/, auto&& list) {
  return list();
}

template <MaybeConst<NoticeRequest> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"worker">(m.worker),
      Field<"grace_ms">(m.grace_ms),
      Field<"is_server">(m.is_server),
      Field<"is_release">(m.is_release));
}

template <MaybeConst<NoticeReply> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"grace_ms">(m.grace_ms));
}

template <MaybeConst<ScaleChange> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Text<"type", kNameBytesMax>(m.type),
      Field<"count">(m.count),
      Field<"is_relative">(m.is_relative),
      Field<"is_servers">(m.is_servers),
      Field<"shares">(m.shares),
      Text<"tensor", kNameBytesMax>(m.tensor),
      Field<"chunk">(m.chunk));
}

template <MaybeConst<ScaleRequest> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"changes">(m.changes));
}

template <MaybeConst<ScaleReply> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"fleet">(m.fleet), Field<"servers">(m.servers));
}

template <MaybeConst<PauseRequest> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"is_paused">(m.is_paused));
}

template <MaybeConst<PauseReply> M>
auto ListFields(M& /*m*/, auto&& list) {
  return list();
}

template <MaybeConst<ModeRequest> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"wanted">(m.wanted));
}

template <MaybeConst<ModeReply> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"modes">(m.modes));
}

template <MaybeConst<ConfigOverride> M>
auto ListFields(M& m, auto&& list) {
  return list(WholeText<"key", kNameBytesMax>(m.key), WholeText<"value", kNameBytesMax>(m.value));
}

template <MaybeConst<SetRequest> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"changes">(m.changes));
}

template <MaybeConst<SetReply> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"steps">(m.steps));
}

}  // namespace ps::proto
