// Messages between workers and the coordinator.

#include "ps/proto/codec.h"

namespace ps::proto::codec {

Offset<wire::JoinRequest> Encode(Fbb& b, const JoinRequest& m) {
  const auto host = MakeText(b, m.host, kNameBytesMax);
  return wire::CreateJoinRequest(
      b,
      m.seat.value,
      m.has_seat,
      host,
      m.pid,
      m.minibatch,
      m.slowdown,
      m.is_returning,
      m.launch.value);
}

void Decode(Decoder& d, const wire::JoinRequest& w, JoinRequest* m) {
  m->seat = WorkerId(w.seat());
  m->has_seat = w.has_seat();
  m->is_returning = w.is_returning();
  m->host = d.Text(w.host(), kNameBytesMax, "host");
  m->pid = w.pid();
  m->minibatch = w.minibatch();
  m->slowdown = w.slowdown();
  m->launch = LaunchId(w.launch());
}

Offset<wire::ShardAddress> Encode(Fbb& b, const ShardAddress& m) {
  const auto host = MakeText(b, m.host, kNameBytesMax);
  return wire::CreateShardAddress(b, m.shard.value, host, m.port);
}

void Decode(Decoder& d, const wire::ShardAddress& w, ShardAddress* m) {
  m->shard = ShardId(w.shard());
  m->host = d.Text(w.host(), kNameBytesMax, "shard.host");
  m->port = w.port();
}

Offset<wire::JoinReply> Encode(Fbb& b, const JoinReply& m) {
  const auto config = b.CreateString(m.config_json);
  const auto shards = MakeTables(b, m.shards);
  const auto placement = Encode(b, m.placement);
  const auto device = MakeText(b, m.device, kDeviceBytesMax);
  wire::JoinReplyBuilder out(b);
  out.add_worker(m.worker.value);
  out.add_incarnation(m.incarnation.value);
  out.add_generation(m.generation.value);
  out.add_config_json(config);
  out.add_shards(shards);
  out.add_placement(placement);
  out.add_minibatch(m.minibatch);
  out.add_slowdown(m.slowdown);
  out.add_threads(m.threads);
  out.add_device(device);
  return out.Finish();
}

void Decode(Decoder& d, const wire::JoinReply& w, JoinReply* m) {
  m->worker = WorkerId(w.worker());
  m->incarnation = Incarnation(w.incarnation());
  m->generation = Generation(w.generation());
  m->config_json = d.Text(w.config_json(), kConfigBytesMax, "config_json");
  d.Tables(w.shards(), "shards", &m->shards);
  if (d.Present(w.placement(), "placement")) {
    Decode(d, *w.placement(), &m->placement);
  }
  m->minibatch = w.minibatch();
  m->slowdown = w.slowdown();
  m->threads = w.threads();
  m->device = d.Text(w.device(), kDeviceBytesMax, "device");
}

wire::DatasetFingerprint EncodeData(const DatasetFingerprint& m) {
  return {
      m.train_count,
      m.test_count,
      m.channels,
      m.height,
      m.width,
      m.classes,
      m.train_images_crc,
      m.train_labels_crc,
      m.test_images_crc,
      m.test_labels_crc};
}

DatasetFingerprint DecodeData(const wire::DatasetFingerprint& w) {
  DatasetFingerprint m;
  m.channels = w.channels();
  m.height = w.height();
  m.width = w.width();
  m.classes = w.classes();
  m.train_count = w.train_count();
  m.test_count = w.test_count();
  m.train_images_crc = w.train_images_crc();
  m.train_labels_crc = w.train_labels_crc();
  m.test_images_crc = w.test_images_crc();
  m.test_labels_crc = w.test_labels_crc();
  return m;
}

Offset<wire::LeaseRequest> Encode(Fbb& b, const LeaseRequest& m) {
  const wire::DatasetFingerprint data = EncodeData(m.data);
  const auto device = MakeText(b, m.device, kDeviceBytesMax);
  return wire::CreateLeaseRequest(b, m.incarnation.value, m.newest.value, &data, device);
}

void Decode(Decoder& d, const wire::LeaseRequest& w, LeaseRequest* m) {
  m->incarnation = Incarnation(w.incarnation());
  m->newest = LeaseId(w.newest());
  if (d.Present(w.data(), "data")) {
    m->data = DecodeData(*w.data());
  }
  m->device = d.Text(w.device(), kDeviceBytesMax, "device");
}

Offset<wire::LeaseGrant> Encode(Fbb& b, const LeaseGrant& m) {
  wire::LeaseGrantBuilder out(b);
  out.add_incarnation(m.incarnation.value);
  out.add_lease(m.lease.value);
  out.add_kind(EnumTo<wire::LeaseKind>(m.kind));
  out.add_epoch(m.epoch);
  out.add_begin(m.begin);
  out.add_end(m.end);
  out.add_round(m.round);
  out.add_minibatch(m.minibatch);
  out.add_mode(EnumTo<wire::Mode>(m.mode));
  return out.Finish();
}

void Decode(Decoder& d, const wire::LeaseGrant& w, LeaseGrant* m) {
  m->incarnation = Incarnation(w.incarnation());
  m->lease = LeaseId(w.lease());
  m->kind = d.Enum<LeaseKind>(w.kind(), "kind");
  m->epoch = w.epoch();
  m->begin = w.begin();
  m->end = w.end();
  m->round = w.round();
  m->minibatch = w.minibatch();
  m->mode = d.Enum<Mode>(w.mode(), "mode");
  if (m->end < m->begin) {
    d.Fail("the lease ends before it begins");
  }
}

Offset<wire::StepReport> Encode(Fbb& b, const StepReport& m) {
  const auto steps = MakeStructs<wire::StepDone>(b, m.steps, [](const StepDone& s) {
    return wire::StepDone(
        s.step,
        s.lease.value,
        s.begin,
        s.end,
        s.loss_sum,
        s.correct,
        s.lives,
        s.placement,
        s.is_rejected);
  });
  return wire::CreateStepReport(b, m.incarnation.value, steps);
}

void Decode(Decoder& d, const wire::StepReport& w, StepReport* m) {
  m->incarnation = Incarnation(w.incarnation());
  d.Structs(w.steps(), "steps", &m->steps, [&](const wire::StepDone& s) {
    if (s.end() < s.begin()) {
      d.Fail("a step ends before it begins");
    }
    return StepDone{
        s.step(),
        LeaseId(s.lease()),
        s.begin(),
        s.end(),
        s.loss_sum(),
        s.correct(),
        s.is_rejected(),
        s.lives(),
        s.placement()};
  });
}

Offset<wire::StepAck> Encode(Fbb& b, const StepAck& m) {
  return wire::CreateStepAck(b, m.incarnation.value, m.last_step);
}

void Decode(Decoder& /*d*/, const wire::StepAck& w, StepAck* m) {
  m->incarnation = Incarnation(w.incarnation());
  m->last_step = w.last_step();
}

Offset<wire::EvaluateReport> Encode(Fbb& b, const EvaluateReport& m) {
  return wire::CreateEvaluateReport(
      b, m.incarnation.value, m.lease.value, m.samples, m.loss_sum, m.correct);
}

void Decode(Decoder& /*d*/, const wire::EvaluateReport& w, EvaluateReport* m) {
  m->incarnation = Incarnation(w.incarnation());
  m->lease = LeaseId(w.lease());
  m->samples = w.samples();
  m->loss_sum = w.loss_sum();
  m->correct = w.correct();
}

Offset<wire::EvaluateAck> Encode(Fbb& b, const EvaluateAck& m) {
  return wire::CreateEvaluateAck(b, m.incarnation.value, m.lease.value);
}

void Decode(Decoder& /*d*/, const wire::EvaluateAck& w, EvaluateAck* m) {
  m->incarnation = Incarnation(w.incarnation());
  m->lease = LeaseId(w.lease());
}

Offset<wire::WorkerHeartbeat> Encode(Fbb& b, const WorkerHeartbeat& m) {
  const auto waits = MakeTables(b, m.waits, kWaitsPerPeerMax);
  const wire::WorkerStats stats = EncodeStats(m.stats);
  return wire::CreateWorkerHeartbeat(
      b,
      m.incarnation.value,
      EnumTo<wire::WorkerState>(m.state),
      &stats,
      waits,
      m.stats.steps_late,
      m.placement,
      m.is_at_risk);
}

void Decode(Decoder& d, const wire::WorkerHeartbeat& w, WorkerHeartbeat* m) {
  m->incarnation = Incarnation(w.incarnation());
  m->state = d.Enum<WorkerState>(w.state(), "state");
  if (d.Present(w.stats(), "stats")) {
    m->stats = DecodeStats(*w.stats(), w.steps_late());
  }
  d.Tables(w.waits(), "waits", &m->waits);
  m->placement = w.placement();
  m->is_at_risk = w.is_at_risk();
}

Offset<wire::HeartbeatReply> Encode(Fbb& b, const HeartbeatReply& m) {
  return wire::CreateHeartbeatReply(b, m.generation.value);
}

void Decode(Decoder& /*d*/, const wire::HeartbeatReply& w, HeartbeatReply* m) {
  m->generation = Generation(w.generation());
}

Offset<wire::Goodbye> Encode(Fbb& b, const Goodbye& m) {
  const auto reason = MakeText(b, m.reason, kTextBytesMax);
  const wire::WorkerStats stats = EncodeStats(m.stats);
  return wire::CreateGoodbye(b, m.incarnation.value, reason, &stats, m.stats.steps_late);
}

void Decode(Decoder& d, const wire::Goodbye& w, Goodbye* m) {
  m->incarnation = Incarnation(w.incarnation());
  m->reason = d.Text(w.reason(), kTextBytesMax, "reason");
  if (d.Present(w.stats(), "stats")) {
    m->stats = DecodeStats(*w.stats(), w.steps_late());
  }
}

Offset<wire::GoodbyeReply> Encode(Fbb& b, const GoodbyeReply& m) {
  return wire::CreateGoodbyeReply(b, m.incarnation.value);
}

void Decode(Decoder& /*d*/, const wire::GoodbyeReply& w, GoodbyeReply* m) {
  m->incarnation = Incarnation(w.incarnation());
}

Offset<wire::Drain> Encode(Fbb& b, const Drain& m) {
  const auto reason = MakeText(b, m.reason, kTextBytesMax);
  return wire::CreateDrain(b, reason, m.grace_ms);
}

void Decode(Decoder& d, const wire::Drain& w, Drain* m) {
  m->reason = d.Text(w.reason(), kTextBytesMax, "reason");
  m->grace_ms = w.grace_ms();
}

Offset<wire::Shutdown> Encode(Fbb& b, const Shutdown& m) {
  return wire::CreateShutdown(b, MakeText(b, m.reason, kTextBytesMax));
}

void Decode(Decoder& d, const wire::Shutdown& w, Shutdown* m) {
  m->reason = d.Text(w.reason(), kTextBytesMax, "reason");
}

Offset<wire::ShardAddresses> Encode(Fbb& b, const ShardAddresses& m) {
  const auto shards = MakeTables(b, m.shards);
  const auto places = MakeStructs<wire::ChunkPlace>(b, m.places, [](const ChunkPlace& p) {
    return wire::ChunkPlace(p.key.value, p.shard.value);
  });
  return wire::CreateShardAddresses(b, shards, m.base, m.version, places);
}

void Decode(Decoder& d, const wire::ShardAddresses& w, ShardAddresses* m) {
  d.Tables(w.shards(), "shards", &m->shards);
  m->base = w.base();
  m->version = w.version();
  d.Structs(w.places(), "places", &m->places, [](const wire::ChunkPlace& p) {
    return ChunkPlace{ChunkKey(p.key()), ShardId(p.shard())};
  });
}

}  // namespace ps::proto::codec
