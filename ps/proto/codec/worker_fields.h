#pragma once

#include "ps/proto/codec/field_list.h"
#include "ps/proto/limits.h"
#include "ps/proto/messages.h"

// The fields of the messages between workers and the coordinator. Private to the codec.

namespace ps::proto {

template <MaybeConst<StepDone> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"step">(m.step),
      Field<"lease">(m.lease),
      Field<"begin">(m.begin),
      Field<"end">(m.end),
      Field<"loss_sum">(m.loss_sum),
      Field<"correct">(m.correct),
      Field<"lives">(m.lives),
      Field<"placement">(m.placement),
      Field<"is_rejected">(m.is_rejected));
}

void Check(auto& d, const StepDone& m) {
  if (m.end < m.begin) {
    d.Fail("a step ends before it begins");
  }
}

template <MaybeConst<WorkerTimes> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"push_s">(m.push_s),
      Field<"pull_s">(m.pull_s),
      Field<"others_s">(m.others_s),
      Field<"lease_s">(m.lease_s),
      Field<"evaluate_s">(m.evaluate_s),
      Field<"held_back">(m.held_back));
}

template <MaybeConst<WorkerStats> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"steps">(m.steps),
      Field<"samples">(m.samples),
      Field<"samples_per_s">(m.samples_per_s),
      Field<"compute_s">(m.compute_s),
      Field<"wait_s">(m.wait_s),
      Field<"bytes_pushed">(m.bytes_pushed),
      Field<"bytes_pulled">(m.bytes_pulled),
      Field<"retries">(m.retries),
      Field<"steps_dropped">(m.steps_dropped));
}

template <MaybeConst<Figure> M>
auto ListFields(M& m, auto&& list) {
  return list(Text<"name", kFigureNameBytesMax>(m.name), Field<"value">(m.value));
}

template <MaybeConst<JoinRequest> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"seat">(m.seat),
      Field<"has_seat">(m.has_seat),
      Text<"host", kNameBytesMax>(m.host),
      Field<"pid">(m.pid),
      Field<"minibatch">(m.minibatch),
      Field<"slowdown">(m.slowdown),
      Field<"is_returning">(m.is_returning),
      Field<"launch">(m.launch));
}

template <MaybeConst<ShardAddress> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"shard">(m.shard), Text<"host", kNameBytesMax>(m.host), Field<"port">(m.port));
}

template <MaybeConst<ChunkPlace> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"key">(m.key), Field<"shard">(m.shard));
}

template <MaybeConst<ShardAddresses> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"shards">(m.shards),
      Field<"base">(m.base),
      Field<"version">(m.version),
      Field<"places">(m.places));
}

template <MaybeConst<JoinReply> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"worker">(m.worker),
      Field<"incarnation">(m.incarnation),
      Field<"generation">(m.generation),
      WholeText<"config_json", kConfigBytesMax>(m.config_json),
      Field<"shards">(m.shards),
      Field<"placement">(m.placement),
      Field<"minibatch">(m.minibatch),
      Field<"slowdown">(m.slowdown),
      Field<"threads">(m.threads),
      Text<"device", kDeviceBytesMax>(m.device),
      Field<"tensors">(m.tensors));
}

template <MaybeConst<DatasetFingerprint> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"train_count">(m.train_count),
      Field<"test_count">(m.test_count),
      Field<"channels">(m.channels),
      Field<"height">(m.height),
      Field<"width">(m.width),
      Field<"classes">(m.classes),
      Field<"train_images_crc">(m.train_images_crc),
      Field<"train_labels_crc">(m.train_labels_crc),
      Field<"test_images_crc">(m.test_images_crc),
      Field<"test_labels_crc">(m.test_labels_crc));
}

template <MaybeConst<LeaseRequest> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"newest">(m.newest),
      Field<"data">(m.data),
      Text<"device", kDeviceBytesMax>(m.device),
      Field<"frozen_crc">(m.frozen_crc));
}

template <MaybeConst<StepSettings> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"push">(m.push),
      Field<"pull">(m.pull),
      Field<"has_feedback">(m.has_feedback),
      Field<"local_steps">(m.local_steps),
      Field<"is_by_speed">(m.is_by_speed));
}

void Check(auto& d, const StepSettings& m) {
  if (m.local_steps == 0 || m.local_steps > kLocalStepsMax) {
    d.Fail("local_steps", "is none that a job can have");
  }
}

template <MaybeConst<LeaseGrant> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"lease">(m.lease),
      Field<"kind">(m.kind),
      Field<"epoch">(m.epoch),
      Field<"begin">(m.begin),
      Field<"end">(m.end),
      Field<"round">(m.round),
      Field<"minibatch">(m.minibatch),
      Field<"mode">(m.mode),
      Field<"local_steps">(m.local_steps),
      Field<"samples_done">(m.samples_done),
      Optional<"settings">(m.settings));
}

void Check(auto& d, const LeaseGrant& m) {
  if (m.end < m.begin) {
    d.Fail("the lease ends before it begins");
  }
  if (m.local_steps == 0 || m.step_samples() > kStepSamplesMax) {
    d.Fail("a lease's steps have no minibatch, or too many");
  }
}

template <MaybeConst<CutLease> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"incarnation">(m.incarnation), Field<"lease">(m.lease), Field<"end">(m.end));
}

template <MaybeConst<LeaseCut> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"incarnation">(m.incarnation), Field<"lease">(m.lease));
}

template <MaybeConst<StepReport> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"incarnation">(m.incarnation), Field<"steps">(m.steps));
}

template <MaybeConst<StepAck> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"incarnation">(m.incarnation), Field<"last_step">(m.last_step));
}

template <MaybeConst<MetricSums> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"squared_error">(m.squared_error),
      Field<"absolute_error">(m.absolute_error),
      Field<"target">(m.target),
      Field<"target_square">(m.target_square),
      Field<"near_hits">(m.near_hits),
      Field<"near_samples">(m.near_samples));
}

template <MaybeConst<EvaluateReport> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"lease">(m.lease),
      Field<"samples">(m.samples),
      Field<"loss_sum">(m.loss_sum),
      Field<"correct">(m.correct),
      Field<"sums">(m.sums));
}

template <MaybeConst<EvaluateAck> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"incarnation">(m.incarnation), Field<"lease">(m.lease));
}

template <MaybeConst<WorkerHeartbeat> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"state">(m.state),
      Field<"stats">(m.stats),
      First<"waits", kWaitsPerPeerMax>(m.waits),
      Field<"steps_late">(m.stats.steps_late),
      Field<"placement">(m.placement),
      Field<"is_at_risk">(m.is_at_risk),
      Field<"minibatches">(m.minibatches),
      Field<"times">(m.stats.times),
      First<"figures", kFiguresMax>(m.figures),
      Text<"ignored", kTextBytesMax>(m.ignored));
}

template <MaybeConst<HeartbeatReply> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"generation">(m.generation));
}

template <MaybeConst<Goodbye> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Text<"reason", kTextBytesMax>(m.reason),
      Field<"stats">(m.stats),
      Field<"steps_late">(m.stats.steps_late),
      Field<"times">(m.stats.times));
}

template <MaybeConst<GoodbyeReply> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"incarnation">(m.incarnation));
}

template <MaybeConst<Drain> M>
auto ListFields(M& m, auto&& list) {
  return list(Text<"reason", kTextBytesMax>(m.reason), Field<"grace_ms">(m.grace_ms));
}

template <MaybeConst<Shutdown> M>
auto ListFields(M& m, auto&& list) {
  return list(Text<"reason", kTextBytesMax>(m.reason));
}

}  // namespace ps::proto
