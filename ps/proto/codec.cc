#include "ps/proto/codec.h"

#include <fmt/core.h>

#include "ps/base/utf8.h"

namespace ps::proto::codec {

// The wire's numbers are the C++ enums' numbers: first and last of each.
static_assert(static_cast<int>(wire::Role::MAX) == static_cast<int>(Role::kControl));
static_assert(static_cast<int>(wire::StatusCode::MAX) == kStatusCodeCount - 1);
static_assert(static_cast<int>(wire::PushOutcome::MAX) == static_cast<int>(PushOutcome::kRejected));
static_assert(static_cast<int>(wire::LeaseKind::MAX) == static_cast<int>(LeaseKind::kEvaluate));
static_assert(static_cast<int>(wire::WorkerState::MAX) == static_cast<int>(WorkerState::kDraining));
static_assert(static_cast<int>(wire::Mode::MAX) == static_cast<int>(Mode::kBsp));
static_assert(static_cast<int>(wire::InitKind::MAX) == static_cast<int>(InitKind::kUniform));
static_assert(static_cast<int>(wire::UpdateRule::MAX) == static_cast<int>(UpdateRule::kAverage));

std::string Decoder::Text(const flatbuffers::String* text, size_t bytes_max, const char* field) {
  if (text == nullptr || !Charge(text->size(), field)) {
    return {};
  }
  if (text->size() > bytes_max) {
    Fail(fmt::format("{} has {} bytes, over the limit of {}", field, text->size(), bytes_max));
    return {};
  }
  return text->str();
}

Offset<flatbuffers::String> MakeText(Fbb& b, const std::string& text, size_t bytes_max) {
  constexpr std::string_view kCut = "...";
  if (text.size() <= bytes_max) {
    return b.CreateString(text);
  }
  size_t end = bytes_max - kCut.size();
  while (end > 0 && IsUtf8Continuation(text[end])) {
    --end;
  }
  return b.CreateString(text.substr(0, end).append(kCut));
}

bool Decoder::Charge(size_t bytes, const char* field) {
  if (bytes > budget_) {
    Fail(std::string(field) + " overlaps other parts of the message");
    return false;
  }
  budget_ -= bytes;
  return true;
}

Offset<wire::Placement> Encode(Fbb& b, const Placement& m) {
  const auto chunks = MakeStructs<wire::ChunkAssignment>(b, m.chunks, [](const auto& c) {
    return wire::ChunkAssignment(c.key.value, c.element_begin, c.element_count, c.shard.value);
  });
  return wire::CreatePlacement(b, m.version, chunks);
}

void Decode(Decoder& d, const wire::Placement& w, Placement* m) {
  m->version = w.version();
  d.Structs(w.chunks(), "placement.chunks", &m->chunks, [&](const wire::ChunkAssignment& c) {
    if (c.element_count() == 0 || c.element_begin() < 0 || c.element_begin() > kTensorElementsMax) {
      d.Fail("placement.chunks has an empty chunk or one outside its tensor");
    }
    return ChunkAssignment{
        ChunkKey(c.key()), c.element_count(), c.element_begin(), ShardId(c.shard())};
  });
}

Offset<wire::Wait> Encode(Fbb& b, const Wait& m) {
  const auto who = MakeText(b, m.who, kNameBytesMax);
  const auto for_whom = MakeText(b, m.for_whom, kTextBytesMax);
  const auto what = MakeText(b, m.what, kTextBytesMax);
  return wire::CreateWait(b, who, for_whom, what, m.since_s, m.generation.value);
}

void Decode(Decoder& d, const wire::Wait& w, Wait* m) {
  m->who = d.Text(w.who(), kNameBytesMax, "wait.who");
  m->for_whom = d.Text(w.for_whom(), kTextBytesMax, "wait.for_whom");
  m->what = d.Text(w.what(), kTextBytesMax, "wait.what");
  m->since_s = w.since_s();
  m->generation = Generation(w.generation());
}

Offset<wire::ShardStats> Encode(Fbb& b, const ShardStats& m) {
  const auto histogram = b.CreateVector(m.staleness_histogram);
  const auto workers = MakeStructs<wire::WorkerAtShard>(b, m.workers, [](const auto& s) {
    return wire::WorkerAtShard(
        s.incarnation.value, s.clock, s.last_step, s.worker.value, s.staleness);
  });
  wire::ShardStatsBuilder out(b);
  out.add_chunk_count(m.chunk_count);
  out.add_parameter_bytes(m.parameter_bytes);
  out.add_steps_applied(m.steps_applied);
  out.add_samples_applied(m.samples_applied);
  out.add_chunks_applied(m.chunks_applied);
  out.add_chunks_duplicate(m.chunks_duplicate);
  out.add_chunks_rejected(m.chunks_rejected);
  out.add_chunks_overflowed(m.chunks_overflowed);
  out.add_pushes_fenced(m.pushes_fenced);
  out.add_bytes_received(m.bytes_received);
  out.add_bytes_sent(m.bytes_sent);
  out.add_staged_bytes(m.staged_bytes);
  out.add_round(m.round);
  out.add_lr(m.lr);
  out.add_staleness_histogram(histogram);
  out.add_workers(workers);
  return out.Finish();
}

void Decode(Decoder& d, const wire::ShardStats& w, ShardStats* m) {
  m->chunk_count = w.chunk_count();
  m->parameter_bytes = w.parameter_bytes();
  m->steps_applied = w.steps_applied();
  m->samples_applied = w.samples_applied();
  m->chunks_applied = w.chunks_applied();
  m->chunks_duplicate = w.chunks_duplicate();
  m->chunks_rejected = w.chunks_rejected();
  m->chunks_overflowed = w.chunks_overflowed();
  m->pushes_fenced = w.pushes_fenced();
  m->bytes_received = w.bytes_received();
  m->bytes_sent = w.bytes_sent();
  m->staged_bytes = w.staged_bytes();
  m->round = w.round();
  m->lr = w.lr();
  d.Scalars(w.staleness_histogram(), "stats.staleness_histogram", &m->staleness_histogram);
  d.Structs(w.workers(), "stats.workers", &m->workers, [](const wire::WorkerAtShard& s) {
    return WorkerAtShard{
        WorkerId(s.worker()),
        Incarnation(s.incarnation()),
        s.clock(),
        s.last_step(),
        s.staleness()};
  });
}

wire::WorkerStats EncodeStats(const WorkerStats& m) {
  return {
      m.steps,
      m.samples,
      m.samples_per_s,
      m.compute_s,
      m.wait_s,
      m.bytes_pushed,
      m.bytes_pulled,
      m.retries,
      m.steps_dropped};
}

WorkerStats DecodeStats(const wire::WorkerStats& w, uint64_t steps_late) {
  return {
      w.steps(),
      w.samples(),
      w.samples_per_s(),
      w.compute_s(),
      w.wait_s(),
      w.bytes_pushed(),
      w.bytes_pulled(),
      w.retries(),
      w.steps_dropped(),
      steps_late};
}

}  // namespace ps::proto::codec
