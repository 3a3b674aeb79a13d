// Messages of chunks that move from shard to shard.

#include "ps/proto/codec.h"

namespace ps::proto::codec {

Offset<wire::GiveChunks> Encode(Fbb& b, const GiveChunks& m) {
  const auto keys = EncodeIds(b, m.keys);
  const auto to = Encode(b, m.to);
  return wire::CreateGiveChunks(b, m.version, to, m.to_life, keys);
}

void Decode(Decoder& d, const wire::GiveChunks& w, GiveChunks* m) {
  m->version = w.version();
  if (d.Present(w.to(), "to")) {
    Decode(d, *w.to(), &m->to);
  }
  m->to_life = w.to_life();
  DecodeIds(d, w.keys(), "keys", &m->keys);
}

Offset<wire::ChunksGiven> Encode(Fbb& b, const ChunksGiven& m) {
  return wire::CreateChunksGiven(b, m.shard.value, m.version);
}

void Decode(Decoder& /*d*/, const wire::ChunksGiven& w, ChunksGiven* m) {
  m->shard = ShardId(w.shard());
  m->version = w.version();
}

Offset<wire::OfferedChunk> Encode(Fbb& b, const OfferedChunk& m) {
  const auto ahead = EncodeIds(b, m.ahead);
  return wire::CreateOfferedChunk(b, m.key.value, m.version, ahead);
}

void Decode(Decoder& d, const wire::OfferedChunk& w, OfferedChunk* m) {
  m->key = ChunkKey(w.key());
  m->version = w.version();
  DecodeIds(d, w.ahead(), "ahead", &m->ahead);
}

Offset<wire::StagedStep> Encode(Fbb& b, const StagedStep& m) {
  const auto keys = EncodeIds(b, m.keys);
  return wire::CreateStagedStep(b, m.incarnation.value, m.step, m.round, m.samples, keys);
}

void Decode(Decoder& d, const wire::StagedStep& w, StagedStep* m) {
  m->incarnation = Incarnation(w.incarnation());
  m->step = w.step();
  m->round = w.round();
  m->samples = w.samples();
  DecodeIds(d, w.keys(), "keys", &m->keys);
}

Offset<wire::ChunksOffer> Encode(Fbb& b, const ChunksOffer& m) {
  const auto members =
      MakeStructs<wire::OfferedMember>(b, m.members, [](const OfferedMember& member) {
        return wire::OfferedMember(
            member.incarnation.value,
            member.last_step,
            member.clock,
            member.may_skip,
            member.is_active,
            member.round,
            member.is_rejected);
      });
  const auto chunks = MakeTables(b, m.chunks);
  const auto staged = MakeTables(b, m.staged);
  return wire::CreateChunksOffer(
      b,
      m.from.value,
      m.version,
      m.to_life,
      m.generation.value,
      m.samples_done,
      m.lr_factor,
      members,
      chunks,
      staged);
}

void Decode(Decoder& d, const wire::ChunksOffer& w, ChunksOffer* m) {
  m->from = ShardId(w.from());
  m->version = w.version();
  m->to_life = w.to_life();
  m->generation = Generation(w.generation());
  m->samples_done = w.samples_done();
  m->lr_factor = w.lr_factor();
  d.Structs(w.members(), "members", &m->members, [](const wire::OfferedMember& member) {
    return OfferedMember{
        Incarnation(member.incarnation()),
        member.last_step(),
        member.clock(),
        member.may_skip(),
        member.is_active(),
        member.round(),
        member.is_rejected()};
  });
  d.Tables(w.chunks(), "chunks", &m->chunks);
  d.Tables(w.staged(), "staged", &m->staged);
}

Offset<wire::ChunkPart> Encode(Fbb& b, const ChunkPart& m) {
  const auto chunks = MakeStructs<wire::ChunkRef>(b, m.chunks, [](const ChunkRef& c) {
    return wire::ChunkRef(c.key.value, c.element_count, c.element_begin);
  });
  return wire::CreateChunkPart(b, m.version, m.buffer, chunks);
}

void Decode(Decoder& d, const wire::ChunkPart& w, ChunkPart* m) {
  m->version = w.version();
  m->buffer = w.buffer();
  d.Structs(w.chunks(), "chunks", &m->chunks, [](const wire::ChunkRef& c) {
    return ChunkRef{ChunkKey(c.key()), c.element_count(), c.element_begin()};
  });
}

Offset<wire::ChunksTaken> Encode(Fbb& b, const ChunksTaken& m) {
  return wire::CreateChunksTaken(b, m.version, m.generation.value);
}

void Decode(Decoder& /*d*/, const wire::ChunksTaken& w, ChunksTaken* m) {
  m->version = w.version();
  m->generation = Generation(w.generation());
}

}  // namespace ps::proto::codec
