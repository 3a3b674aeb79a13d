// Messages about checkpoints, and what a status says of them.

#include "ps/proto/codec.h"

namespace ps::proto::codec {

std::vector<CountedStep> DecodeCounted(
    Decoder& d, const StructVector<wire::CountedStep>* w, const char* field) {
  std::vector<CountedStep> counted;
  d.Structs(w, field, &counted, [](const wire::CountedStep& c) {
    return CountedStep{Incarnation(c.incarnation()), c.step()};
  });
  return counted;
}

Offset<StructVector<wire::CountedStep>> EncodeCounted(
    Fbb& b, const std::vector<CountedStep>& counted) {
  return MakeStructs<wire::CountedStep>(b, counted, [](const CountedStep& c) {
    return wire::CountedStep(c.incarnation.value, c.step);
  });
}

namespace {

wire::CheckpointSizes EncodeSizes(const CheckpointSizes& m) {
  return {
      m.logical_bytes,
      m.written_bytes,
      m.shared_bytes,
      m.chunks_written,
      m.chunks_shared,
      m.copied_bytes};
}

void DecodeSizes(Decoder& d, const wire::CheckpointSizes* w, CheckpointSizes* m) {
  if (d.Present(w, "sizes")) {
    *m = {
        w->logical_bytes(),
        w->written_bytes(),
        w->shared_bytes(),
        w->chunks_written(),
        w->chunks_shared(),
        w->copied_bytes()};
  }
}

}  // namespace

Offset<wire::CheckpointRequest> Encode(Fbb& b, const CheckpointRequest& m) {
  const auto kept = b.CreateVector(m.kept);
  return wire::CreateCheckpointRequest(b, m.checkpoint, m.round, kept);
}

void Decode(Decoder& d, const wire::CheckpointRequest& w, CheckpointRequest* m) {
  m->checkpoint = w.checkpoint();
  m->round = w.round();
  d.Scalars(w.kept(), "kept", &m->kept);
}

Offset<wire::CheckpointReport> Encode(Fbb& b, const CheckpointReport& m) {
  const auto message = MakeText(b, m.message, kTextBytesMax);
  const auto directory = MakeText(b, m.directory, kNameBytesMax);
  const wire::CheckpointSizes sizes = EncodeSizes(m.sizes);
  wire::CheckpointReportBuilder out(b);
  out.add_shard(m.shard.value);
  out.add_checkpoint(m.checkpoint);
  out.add_code(EnumTo<wire::StatusCode>(m.code));
  out.add_message(message);
  out.add_part_crc(m.part_crc);
  out.add_part_bytes(m.part_bytes);
  out.add_directory(directory);
  out.add_sizes(&sizes);
  return out.Finish();
}

void Decode(Decoder& d, const wire::CheckpointReport& w, CheckpointReport* m) {
  m->shard = ShardId(w.shard());
  m->checkpoint = w.checkpoint();
  m->code = d.Enum<StatusCode>(w.code(), "code");
  m->message = d.Text(w.message(), kTextBytesMax, "message");
  m->part_crc = w.part_crc();
  m->part_bytes = w.part_bytes();
  m->directory = d.Text(w.directory(), kNameBytesMax, "directory");
  DecodeSizes(d, w.sizes(), &m->sizes);
}

Offset<wire::RestoreFailed> Encode(Fbb& b, const RestoreFailed& m) {
  const auto message = MakeText(b, m.message, kTextBytesMax);
  return wire::CreateRestoreFailed(
      b, m.shard.value, m.life, m.checkpoint, EnumTo<wire::StatusCode>(m.code), message);
}

void Decode(Decoder& d, const wire::RestoreFailed& w, RestoreFailed* m) {
  m->shard = ShardId(w.shard());
  m->life = w.life();
  m->checkpoint = w.checkpoint();
  m->code = d.Enum<StatusCode>(w.code(), "code");
  m->message = d.Text(w.message(), kTextBytesMax, "message");
}

Offset<wire::CheckpointStatus> Encode(Fbb& b, const CheckpointStatus& m) {
  const auto trouble = MakeText(b, m.trouble, kTextBytesMax);
  const auto damage = MakeText(b, m.damage, kTextBytesMax);
  const wire::CheckpointSizes sizes = EncodeSizes(m.sizes);
  wire::CheckpointStatusBuilder out(b);
  out.add_is_on(m.is_on);
  out.add_newest(m.newest);
  out.add_age_s(m.age_s);
  out.add_open(m.open);
  out.add_committed(m.committed);
  out.add_failed(m.failed);
  out.add_skipped(m.skipped);
  out.add_trouble(trouble);
  out.add_shards_restored(m.shards_restored);
  out.add_steps_undone(m.steps_undone);
  out.add_sizes(&sizes);
  out.add_rollbacks(m.rollbacks);
  out.add_samples_undone(m.samples_undone);
  out.add_seconds_undone(m.seconds_undone);
  out.add_damaged(m.damaged);
  out.add_damage(damage);
  return out.Finish();
}

void Decode(Decoder& d, const wire::CheckpointStatus& w, CheckpointStatus* m) {
  m->is_on = w.is_on();
  m->newest = w.newest();
  m->age_s = w.age_s();
  m->open = w.open();
  m->committed = w.committed();
  m->failed = w.failed();
  m->skipped = w.skipped();
  m->trouble = d.Text(w.trouble(), kTextBytesMax, "trouble");
  m->shards_restored = w.shards_restored();
  m->steps_undone = w.steps_undone();
  m->rollbacks = w.rollbacks();
  m->samples_undone = w.samples_undone();
  m->seconds_undone = w.seconds_undone();
  m->damaged = w.damaged();
  m->damage = d.Text(w.damage(), kTextBytesMax, "damage");
  DecodeSizes(d, w.sizes(), &m->sizes);
}

}  // namespace ps::proto::codec
