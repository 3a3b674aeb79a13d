#pragma once

#include "ps/proto/codec/field_list.h"
#include "ps/proto/limits.h"
#include "ps/proto/messages.h"

// The fields of the messages of any connection, and of those that shards send and get, in the order
// of messages.fbs; and what has to be true of their values. Private to the codec.

namespace ps::proto {

// ---- Any connection -----------------------------------------------------------------------------

template <MaybeConst<Hello> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"role">(m.role),
      WholeText<"token", kNameBytesMax>(m.token),
      Text<"node", kNameBytesMax>(m.node),
      Field<"incarnation">(m.incarnation),
      Field<"term">(m.term));
}

template <MaybeConst<HelloReply> M>
auto ListFields(M& m, auto&& list) {
  return list(Text<"node", kNameBytesMax>(m.node), Field<"term">(m.term));
}

template <MaybeConst<Refusal> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"code">(m.code),
      Text<"message", kTextBytesMax>(m.message),
      Field<"retry_after_ms">(m.retry_after_ms),
      Field<"step">(m.step));
}

void Check(auto& d, const Refusal& m) {
  if (m.code == StatusCode::kOk) {
    d.Fail("code", "says ok in a refusal");
  }
}

// ---- Worker and shard ---------------------------------------------------------------------------

template <MaybeConst<ChunkRef> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"key">(m.key),
      Field<"element_count">(m.element_count),
      Field<"element_begin">(m.element_begin));
}

template <MaybeConst<ChunkVersion> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"key">(m.key), Field<"version">(m.version));
}

template <MaybeConst<PullReply::Chunk> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"key">(m.key),
      Field<"version">(m.version),
      Field<"element_count">(m.element_count),
      Field<"element_begin">(m.element_begin),
      Field<"base">(m.base));
}

template <MaybeConst<PushRequest> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"worker">(m.worker),
      Field<"incarnation">(m.incarnation),
      Field<"step">(m.step),
      Field<"lease">(m.lease),
      Field<"round">(m.round),
      Field<"samples">(m.samples),
      Field<"chunk_count">(m.chunk_count),
      Field<"chunks">(m.chunks),
      Field<"wants_pull">(m.wants_pull),
      Field<"held">(m.held),
      Field<"held_life">(m.held_life),
      Field<"placement">(m.placement),
      Field<"encoding">(m.encoding),
      Field<"local_steps">(m.local_steps),
      Optional<"pull_encoding">(m.pull_encoding));
}

template <MaybeConst<PushReply> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"step">(m.step),
      Field<"outcome">(m.outcome),
      Field<"rejected_chunks">(m.rejected_chunks),
      Field<"life">(m.life),
      Field<"placement">(m.placement));
}

template <MaybeConst<PullRequest> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"worker">(m.worker),
      Field<"incarnation">(m.incarnation),
      Field<"min_round">(m.min_round),
      Field<"is_evaluation">(m.is_evaluation),
      Field<"held">(m.held),
      Field<"held_life">(m.held_life),
      Field<"placement">(m.placement),
      Optional<"encoding">(m.encoding));
}

template <MaybeConst<PullReply> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"chunks">(m.chunks),
      Field<"chunk_total">(m.chunk_total),
      Field<"staleness_steps">(m.staleness_steps),
      Field<"life">(m.life),
      Field<"placement">(m.placement),
      Field<"encoding">(m.encoding),
      Field<"number">(m.number));
}

// ---- Shard and coordinator ----------------------------------------------------------------------

template <MaybeConst<ChunkAssignment> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"key">(m.key),
      Field<"element_begin">(m.element_begin),
      Field<"element_count">(m.element_count),
      Field<"shard">(m.shard));
}

void Check(auto& d, const ChunkAssignment& m) {
  if (m.element_count == 0 || m.element_begin < 0 || m.element_begin > kTensorElementsMax) {
    d.Fail("an empty chunk or one outside its tensor");
  }
}

template <MaybeConst<Member> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"worker">(m.worker),
      Field<"is_active">(m.is_active));
}

template <MaybeConst<MembershipAck::Resolved> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"last_complete_step">(m.last_complete_step),
      Field<"outcome">(m.outcome));
}

template <MaybeConst<CommitRound::Contribution> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"step">(m.step),
      Field<"worker">(m.worker),
      Field<"samples">(m.samples));
}

template <MaybeConst<CountedStep> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"incarnation">(m.incarnation), Field<"step">(m.step));
}

template <MaybeConst<RestoreOrder> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"checkpoint">(m.checkpoint), Field<"shards">(m.shards));
}

template <MaybeConst<CheckpointSizes> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"logical_bytes">(m.logical_bytes),
      Field<"written_bytes">(m.written_bytes),
      Field<"shared_bytes">(m.shared_bytes),
      Field<"chunks_written">(m.chunks_written),
      Field<"chunks_shared">(m.chunks_shared),
      Field<"copied_bytes">(m.copied_bytes));
}

template <MaybeConst<WorkerAtShard> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"clock">(m.clock),
      Field<"last_step">(m.last_step),
      Field<"worker">(m.worker),
      Field<"staleness">(m.staleness));
}

template <MaybeConst<RegisterShard> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"shard">(m.shard),
      Text<"host", kNameBytesMax>(m.host),
      Field<"port">(m.port),
      Field<"pid">(m.pid),
      Field<"life">(m.life),
      Field<"launch">(m.launch));
}

template <MaybeConst<Placement> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"version">(m.version), Field<"chunks">(m.chunks));
}

template <MaybeConst<ModeChoice> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"mode">(m.mode), Field<"staleness_max">(m.staleness_max));
}

template <MaybeConst<Membership> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"generation">(m.generation),
      Field<"base">(m.base),
      Field<"incarnation_max">(m.incarnation_max),
      Field<"members">(m.members),
      Field<"resolve">(m.resolve),
      Field<"forgotten">(m.forgotten),
      Field<"mode">(m.mode),
      Field<"round">(m.round));
}

template <MaybeConst<MembershipAck> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"shard">(m.shard), Field<"generation">(m.generation), Field<"resolved">(m.resolved));
}

template <MaybeConst<ShardSetup> M>
auto ListFields(M& m, auto&& list) {
  return list(
      WholeText<"config_json", kConfigBytesMax>(m.config_json),
      Field<"tensors">(m.tensors),
      Field<"placement">(m.placement),
      Field<"total_samples">(m.total_samples),
      Field<"membership">(m.membership),
      Field<"has_values">(m.has_values),
      Field<"life">(m.life),
      Field<"restore">(m.restore),
      Field<"counted">(m.counted));
}

template <MaybeConst<ShardReady> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"shard">(m.shard), Field<"life">(m.life));
}

template <MaybeConst<CommitRound> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"round">(m.round),
      Field<"contributions">(m.contributions),
      Field<"local_steps">(m.local_steps));
}

template <MaybeConst<CommitAck> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"shard">(m.shard), Field<"round">(m.round));
}

template <MaybeConst<CheckpointRequest> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"checkpoint">(m.checkpoint), Field<"round">(m.round), Field<"kept">(m.kept));
}

template <MaybeConst<CheckpointReport> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"shard">(m.shard),
      Field<"checkpoint">(m.checkpoint),
      Field<"code">(m.code),
      Text<"message", kTextBytesMax>(m.message),
      Field<"part_crc">(m.part_crc),
      Field<"part_bytes">(m.part_bytes),
      Text<"directory", kNameBytesMax>(m.directory),
      Field<"sizes">(m.sizes));
}

template <MaybeConst<RestoreFailed> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"shard">(m.shard),
      Field<"life">(m.life),
      Field<"checkpoint">(m.checkpoint),
      Field<"code">(m.code),
      Text<"message", kTextBytesMax>(m.message));
}

template <MaybeConst<ServerNotice> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"shard">(m.shard), Field<"grace_ms">(m.grace_ms), Text<"what", kTextBytesMax>(m.what));
}

template <MaybeConst<Wait> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Text<"who", kNameBytesMax>(m.who),
      Text<"for_whom", kTextBytesMax>(m.for_whom),
      Text<"what", kTextBytesMax>(m.what),
      Field<"since_s">(m.since_s),
      Field<"generation">(m.generation));
}

template <MaybeConst<ShardStats> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"chunk_count">(m.chunk_count),
      Field<"parameter_bytes">(m.parameter_bytes),
      Field<"steps_applied">(m.steps_applied),
      Field<"samples_applied">(m.samples_applied),
      Field<"chunks_applied">(m.chunks_applied),
      Field<"chunks_duplicate">(m.chunks_duplicate),
      Field<"chunks_rejected">(m.chunks_rejected),
      Field<"chunks_overflowed">(m.chunks_overflowed),
      Field<"pushes_fenced">(m.pushes_fenced),
      Field<"bytes_received">(m.bytes_received),
      Field<"bytes_sent">(m.bytes_sent),
      Field<"staged_bytes">(m.staged_bytes),
      Field<"held_bytes">(m.held_bytes),
      Field<"round">(m.round),
      Field<"lr">(m.lr),
      Field<"staleness_histogram">(m.staleness_histogram),
      Field<"workers">(m.workers));
}

template <MaybeConst<ShardHeartbeat> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"shard">(m.shard), Field<"stats">(m.stats), First<"waits", kWaitsPerPeerMax>(m.waits));
}

}  // namespace ps::proto

// TensorSpec is of ps/base, so its list is in that namespace.
namespace ps {

template <proto::MaybeConst<TensorSpec> M>
auto ListFields(M& m, auto&& list) {
  return list(
      proto::WholeText<"name", proto::kNameBytesMax>(m.name),
      proto::Field<"shape">(m.shape),
      proto::Field<"init">(m.init),
      proto::Field<"init_scale">(m.init_scale),
      proto::Field<"rule">(m.rule),
      proto::Field<"average_rate">(m.average_rate),
      proto::Field<"has_weight_decay">(m.has_weight_decay));
}

void Check(auto& d, const TensorSpec& m) {
  int64_t elements = 1;
  for (const int64_t dim : m.shape) {
    if (dim < 1 || dim > proto::kTensorElementsMax / elements) {
      return d.Fail("shape", "has a dimension below 1 or too many elements");
    }
    elements *= dim;
  }
}

}  // namespace ps

// So is Encoding, of ps/codec.
namespace ps::codec {

template <proto::MaybeConst<Encoding> M>
auto ListFields(M& m, auto&& list) {
  return list(proto::Field<"kind">(m.kind), proto::Field<"share">(m.share));
}

void Check(auto& d, const Encoding& m) {
  if (d.ok() && !CheckEncoding(m).ok()) {
    d.Fail("share", "is none that the kind has");
  }
}

}  // namespace ps::codec
