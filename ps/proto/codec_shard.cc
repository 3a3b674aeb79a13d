// Messages that shards send and receive.

#include "ps/proto/codec.h"

namespace ps::proto::codec {
namespace {

Offset<StructVector<wire::ChunkVersion>> EncodeHeld(Fbb& b, const std::vector<ChunkVersion>& held) {
  return MakeStructs<wire::ChunkVersion>(
      b, held, [](const ChunkVersion& c) { return wire::ChunkVersion(c.key.value, c.version); });
}

void DecodeHeld(
    Decoder& d, const StructVector<wire::ChunkVersion>* w, std::vector<ChunkVersion>* held) {
  d.Structs(w, "held", held, [](const wire::ChunkVersion& c) {
    return ChunkVersion{ChunkKey(c.key()), c.version()};
  });
}

}  // namespace

Offset<wire::PushRequest> Encode(Fbb& b, const PushRequest& m) {
  const auto chunks = MakeStructs<wire::ChunkRef>(b, m.chunks, [](const ChunkRef& c) {
    return wire::ChunkRef(c.key.value, c.element_count, c.element_begin);
  });
  const auto held = EncodeHeld(b, m.held);
  wire::PushRequestBuilder out(b);
  out.add_worker(m.worker.value);
  out.add_incarnation(m.incarnation.value);
  out.add_step(m.step);
  out.add_lease(m.lease.value);
  out.add_round(m.round);
  out.add_samples(m.samples);
  out.add_chunk_count(m.chunk_count);
  out.add_chunks(chunks);
  out.add_wants_pull(m.wants_pull);
  out.add_held(held);
  out.add_held_life(m.held_life);
  out.add_placement(m.placement);
  out.add_dtype(EnumTo<wire::GradientDtype>(m.dtype));
  return out.Finish();
}

void Decode(Decoder& d, const wire::PushRequest& w, PushRequest* m) {
  m->worker = WorkerId(w.worker());
  m->incarnation = Incarnation(w.incarnation());
  m->step = w.step();
  m->lease = LeaseId(w.lease());
  m->round = w.round();
  m->samples = w.samples();
  m->chunk_count = w.chunk_count();
  d.Structs(w.chunks(), "chunks", &m->chunks, [](const wire::ChunkRef& c) {
    return ChunkRef{ChunkKey(c.key()), c.element_count(), c.element_begin()};
  });
  m->wants_pull = w.wants_pull();
  DecodeHeld(d, w.held(), &m->held);
  m->held_life = w.held_life();
  m->placement = w.placement();
  m->dtype = d.Enum<GradientDtype>(w.dtype(), "dtype");
}

Offset<wire::PushReply> Encode(Fbb& b, const PushReply& m) {
  return wire::CreatePushReply(
      b, m.step, EnumTo<wire::PushOutcome>(m.outcome), m.rejected_chunks, m.life, m.placement);
}

void Decode(Decoder& d, const wire::PushReply& w, PushReply* m) {
  m->step = w.step();
  m->outcome = d.Enum<PushOutcome>(w.outcome(), "outcome");
  m->rejected_chunks = w.rejected_chunks();
  m->life = w.life();
  m->placement = w.placement();
}

Offset<wire::PullRequest> Encode(Fbb& b, const PullRequest& m) {
  const auto held = EncodeHeld(b, m.held);
  return wire::CreatePullRequest(
      b,
      m.worker.value,
      m.incarnation.value,
      m.min_round,
      m.is_evaluation,
      held,
      m.held_life,
      m.placement);
}

void Decode(Decoder& d, const wire::PullRequest& w, PullRequest* m) {
  m->worker = WorkerId(w.worker());
  m->incarnation = Incarnation(w.incarnation());
  m->min_round = w.min_round();
  m->is_evaluation = w.is_evaluation();
  DecodeHeld(d, w.held(), &m->held);
  m->held_life = w.held_life();
  m->placement = w.placement();
}

Offset<wire::PullReply> Encode(Fbb& b, const PullReply& m) {
  const auto chunks = MakeStructs<wire::PulledChunk>(b, m.chunks, [](const PullReply::Chunk& c) {
    return wire::PulledChunk(c.key.value, c.version, c.element_count, c.element_begin);
  });
  return wire::CreatePullReply(b, chunks, m.chunk_total, m.staleness_steps, m.life, m.placement);
}

void Decode(Decoder& d, const wire::PullReply& w, PullReply* m) {
  d.Structs(w.chunks(), "chunks", &m->chunks, [](const wire::PulledChunk& c) {
    return PullReply::Chunk{ChunkKey(c.key()), c.version(), c.element_count(), c.element_begin()};
  });
  m->chunk_total = w.chunk_total();
  m->staleness_steps = w.staleness_steps();
  m->life = w.life();
  m->placement = w.placement();
}

Offset<wire::RegisterShard> Encode(Fbb& b, const RegisterShard& m) {
  const auto host = MakeText(b, m.host, kNameBytesMax);
  return wire::CreateRegisterShard(b, m.shard.value, host, m.port, m.pid, m.life, m.launch.value);
}

void Decode(Decoder& d, const wire::RegisterShard& w, RegisterShard* m) {
  m->shard = ShardId(w.shard());
  m->host = d.Text(w.host(), kNameBytesMax, "host");
  m->port = w.port();
  m->pid = w.pid();
  m->life = w.life();
  m->launch = LaunchId(w.launch());
}

Offset<wire::TensorSpec> Encode(Fbb& b, const TensorSpec& m) {
  const auto name = b.CreateString(m.name);
  const auto shape = b.CreateVector(m.shape);
  return wire::CreateTensorSpec(
      b,
      name,
      shape,
      EnumTo<wire::InitKind>(m.init),
      m.init_scale,
      EnumTo<wire::UpdateRule>(m.rule),
      m.average_rate,
      m.has_weight_decay);
}

void Decode(Decoder& d, const wire::TensorSpec& w, TensorSpec* m) {
  m->name = d.Text(w.name(), kNameBytesMax, "tensor.name");
  d.Scalars(w.shape(), "tensor.shape", &m->shape);
  int64_t elements = 1;
  for (const int64_t dim : m->shape) {
    if (dim < 1 || dim > kTensorElementsMax / elements) {
      d.Fail("tensor.shape has a dimension below 1 or too many elements");
      m->shape.clear();
      break;
    }
    elements *= dim;
  }
  m->init = d.Enum<InitKind>(w.init(), "tensor.init");
  m->init_scale = w.init_scale();
  m->rule = d.Enum<UpdateRule>(w.rule(), "tensor.rule");
  m->average_rate = w.average_rate();
  m->has_weight_decay = w.has_weight_decay();
}

Offset<wire::ShardSetup> Encode(Fbb& b, const ShardSetup& m) {
  const auto config = b.CreateString(m.config_json);
  const auto tensors = MakeTables(b, m.tensors);
  const auto placement = Encode(b, m.placement);
  const auto membership = Encode(b, m.membership);
  const auto counted = EncodeCounted(b, m.counted);
  const wire::RestoreOrder restore(m.restore.checkpoint, m.restore.shards);
  return wire::CreateShardSetup(
      b,
      config,
      tensors,
      placement,
      m.total_samples,
      membership,
      m.has_values,
      m.life,
      &restore,
      counted);
}

void Decode(Decoder& d, const wire::ShardSetup& w, ShardSetup* m) {
  m->config_json = d.Text(w.config_json(), kConfigBytesMax, "config_json");
  d.Tables(w.tensors(), "tensors", &m->tensors);
  if (d.Present(w.placement(), "placement")) {
    Decode(d, *w.placement(), &m->placement);
  }
  m->total_samples = w.total_samples();
  if (d.Present(w.membership(), "membership")) {
    Decode(d, *w.membership(), &m->membership);
  }
  m->has_values = w.has_values();
  m->life = w.life();
  if (d.Present(w.restore(), "restore")) {
    m->restore = {w.restore()->checkpoint(), w.restore()->shards()};
  }
  m->counted = DecodeCounted(d, w.counted(), "counted");
}

Offset<wire::ShardReady> Encode(Fbb& b, const ShardReady& m) {
  return wire::CreateShardReady(b, m.shard.value, m.life);
}

void Decode(Decoder& /*d*/, const wire::ShardReady& w, ShardReady* m) {
  m->shard = ShardId(w.shard());
  m->life = w.life();
}

Offset<wire::Membership> Encode(Fbb& b, const Membership& m) {
  const auto members = MakeStructs<wire::Member>(b, m.members, [](const Member& member) {
    return wire::Member(member.incarnation.value, member.worker.value, member.is_active);
  });
  const auto resolve = EncodeIds(b, m.resolve);
  const auto forgotten = EncodeIds(b, m.forgotten);
  const wire::ModeChoice mode = EncodeMode(m.mode);
  return wire::CreateMembership(
      b,
      m.generation.value,
      m.base.value,
      m.incarnation_max.value,
      members,
      resolve,
      forgotten,
      &mode,
      m.round);
}

void Decode(Decoder& d, const wire::Membership& w, Membership* m) {
  m->generation = Generation(w.generation());
  m->base = Generation(w.base());
  m->incarnation_max = Incarnation(w.incarnation_max());
  d.Structs(w.members(), "members", &m->members, [](const wire::Member& member) {
    return Member{WorkerId(member.worker()), Incarnation(member.incarnation()), member.is_active()};
  });
  DecodeIds(d, w.resolve(), "resolve", &m->resolve);
  DecodeIds(d, w.forgotten(), "forgotten", &m->forgotten);
  m->mode = DecodeMode(d, w.mode(), "mode");
  m->round = w.round();
}

Offset<wire::MembershipAck> Encode(Fbb& b, const MembershipAck& m) {
  const auto resolved =
      MakeStructs<wire::ResolvedStep>(b, m.resolved, [](const MembershipAck::Resolved& r) {
        return wire::ResolvedStep(
            r.incarnation.value, r.last_complete_step, EnumTo<wire::PushOutcome>(r.outcome));
      });
  return wire::CreateMembershipAck(b, m.shard.value, m.generation.value, resolved);
}

void Decode(Decoder& d, const wire::MembershipAck& w, MembershipAck* m) {
  m->shard = ShardId(w.shard());
  m->generation = Generation(w.generation());
  d.Structs(w.resolved(), "resolved", &m->resolved, [&](const wire::ResolvedStep& r) {
    return MembershipAck::Resolved{
        Incarnation(r.incarnation()),
        r.last_complete_step(),
        d.Enum<PushOutcome>(r.outcome(), "resolved.outcome")};
  });
}

Offset<wire::CommitRound> Encode(Fbb& b, const CommitRound& m) {
  const auto contributions =
      MakeStructs<wire::Contribution>(b, m.contributions, [](const CommitRound::Contribution& c) {
        return wire::Contribution(c.incarnation.value, c.step, c.worker.value, c.samples);
      });
  return wire::CreateCommitRound(b, m.round, contributions);
}

void Decode(Decoder& d, const wire::CommitRound& w, CommitRound* m) {
  m->round = w.round();
  d.Structs(w.contributions(), "contributions", &m->contributions, [](const wire::Contribution& c) {
    return CommitRound::Contribution{
        WorkerId(c.worker()), Incarnation(c.incarnation()), c.step(), c.samples()};
  });
}

Offset<wire::CommitAck> Encode(Fbb& b, const CommitAck& m) {
  return wire::CreateCommitAck(b, m.shard.value, m.round);
}

void Decode(Decoder& /*d*/, const wire::CommitAck& w, CommitAck* m) {
  m->shard = ShardId(w.shard());
  m->round = w.round();
}

Offset<wire::ShardHeartbeat> Encode(Fbb& b, const ShardHeartbeat& m) {
  const auto stats = Encode(b, m.stats);
  const auto waits = MakeTables(b, m.waits, kWaitsPerPeerMax);
  return wire::CreateShardHeartbeat(b, m.shard.value, stats, waits);
}

void Decode(Decoder& d, const wire::ShardHeartbeat& w, ShardHeartbeat* m) {
  m->shard = ShardId(w.shard());
  if (d.Present(w.stats(), "stats")) {
    Decode(d, *w.stats(), &m->stats);
  }
  d.Tables(w.waits(), "waits", &m->waits);
}

}  // namespace ps::proto::codec
