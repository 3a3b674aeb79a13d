// The saved form of what counts: ledger, evaluations, rounds.

#include "ps/proto/codec_state.h"

namespace ps::proto::codec {
namespace {

Offset<StructVector<saved::Range>> Encode(Fbb& b, const RangeSet& m) {
  const std::vector<std::pair<uint64_t, uint64_t>> ranges(m.ranges().begin(), m.ranges().end());
  return MakeStructs<saved::Range>(
      b, ranges, [](const auto& range) { return saved::Range(range.first, range.second); });
}

void Decode(Decoder& d, const StructVector<saved::Range>* w, RangeSet* m) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  d.Structs(w, "ranges", &ranges, [](const saved::Range& range) {
    return std::pair(range.begin(), range.end());
  });
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].first >= ranges[i].second || (i > 0 && ranges[i].first <= ranges[i - 1].second)) {
      d.Fail("ranges are empty or not in order");
      return;
    }
    m->Insert(ranges[i].first, ranges[i].second);
  }
}

}  // namespace

Offset<saved::EpochRecord> Encode(Fbb& b, const EpochRecord& m) {
  const auto returned = Encode(b, m.returned);
  const auto counted = Encode(b, m.counted);
  return saved::CreateEpochRecord(b, m.fresh, returned, counted, m.samples_returned);
}

void Decode(Decoder& d, const saved::EpochRecord& w, EpochRecord* m) {
  m->fresh = w.fresh();
  Decode(d, w.returned(), &m->returned);
  Decode(d, w.counted(), &m->counted);
  m->samples_returned = w.samples_returned();
}

Offset<saved::LedgerState> Encode(Fbb& b, const LedgerState& m) {
  std::vector<TrainLease> open;
  open.reserve(m.leases.size());
  for (const auto& [id, lease] : m.leases) {
    open.push_back(lease);
  }
  const auto epochs = MakeList(b, m.epochs);
  const auto leases = MakeStructs<saved::TrainLease>(b, open, [](const TrainLease& l) {
    return saved::TrainLease(
        l.lease.value, l.holder.value, l.begin, l.end, l.next, l.epoch, l.minibatch);
  });
  return saved::CreateLedgerState(b, m.last_lease.value, epochs, leases);
}

void Decode(Decoder& d, const saved::LedgerState& w, LedgerState* m) {
  m->last_lease = LeaseId(w.last_lease());
  d.Tables(w.epochs(), "epochs", &m->epochs);
  std::vector<TrainLease> leases;
  d.Structs(w.leases(), "leases", &leases, [](const saved::TrainLease& l) {
    return TrainLease{
        LeaseId(l.lease()),
        Incarnation(l.holder()),
        l.epoch(),
        l.begin(),
        l.end(),
        l.next(),
        l.minibatch()};
  });
  for (const TrainLease& lease : leases) {
    PutOnce(d, "leases", lease.lease, lease, &m->leases);
  }
}

Offset<saved::Evaluation> Encode(Fbb& b, const Evaluation& m) {
  const auto parts = MakeStructs<saved::EvaluationPart>(b, m.parts, [](const EvaluationPart& p) {
    return saved::EvaluationPart(
        p.begin, p.end, p.lease.value, p.holder.value, p.loss_sum, p.correct, p.is_done);
  });
  return saved::CreateEvaluation(b, m.epoch, parts);
}

void Decode(Decoder& d, const saved::Evaluation& w, Evaluation* m) {
  m->epoch = w.epoch();
  d.Structs(w.parts(), "parts", &m->parts, [](const saved::EvaluationPart& p) {
    return EvaluationPart{
        p.begin(),
        p.end(),
        LeaseId(p.lease()),
        Incarnation(p.holder()),
        p.is_done(),
        p.loss_sum(),
        p.correct()};
  });
}

Offset<saved::EvaluationsState> Encode(Fbb& b, const EvaluationsState& m) {
  const auto pending = MakeList(b, m.pending);
  const auto results = MakeStructs<wire::EvaluationRow>(b, m.results, [](const EvaluationRow& row) {
    return wire::EvaluationRow(row.epoch, row.accuracy, row.loss, row.samples, row.at_s);
  });
  return saved::CreateEvaluationsState(b, pending, results);
}

void Decode(Decoder& d, const saved::EvaluationsState& w, EvaluationsState* m) {
  d.Tables(w.pending(), "pending", &m->pending);
  d.Structs(w.results(), "results", &m->results, [](const wire::EvaluationRow& row) {
    return EvaluationRow{row.epoch(), row.accuracy(), row.loss(), row.samples(), row.at_s()};
  });
}

Offset<saved::RoundsState> Encode(Fbb& b, const RoundsState& m) {
  const std::vector<std::pair<Incarnation, RoundEntry>> open(m.entries.begin(), m.entries.end());
  const auto entries = MakeStructs<saved::RoundEntry>(b, open, [](const auto& entry) {
    const RoundEntry& e = entry.second;
    return saved::RoundEntry(
        entry.first.value, e.step, e.worker.value, e.samples, e.has_contributed, e.is_rejected);
  });
  Offset<wire::CommitRound> commit;
  if (m.commit) {
    commit = Encode(b, *m.commit);
  }
  std::vector<uint32_t> acks;
  for (const ShardId shard : m.acks) {
    acks.push_back(shard.value);
  }
  return saved::CreateRoundsState(b, m.committed, entries, commit, b.CreateVector(acks));
}

void Decode(Decoder& d, const saved::RoundsState& w, RoundsState* m) {
  m->committed = w.committed();
  std::vector<std::pair<Incarnation, RoundEntry>> entries;
  d.Structs(w.entries(), "entries", &entries, [](const saved::RoundEntry& e) {
    return std::pair(
        Incarnation(e.incarnation()),
        RoundEntry{
            WorkerId(e.worker()), e.has_contributed(), e.step(), e.samples(), e.is_rejected()});
  });
  for (const auto& [incarnation, entry] : entries) {
    PutOnce(d, "entries", incarnation, entry, &m->entries);
  }
  if (w.commit() != nullptr) {
    Decode(d, *w.commit(), &m->commit.emplace());
  }
  std::vector<uint32_t> acks;
  d.Scalars(w.acks(), "acks", &acks);
  for (const uint32_t shard : acks) {
    m->acks.insert(ShardId(shard));
  }
}

}  // namespace ps::proto::codec
