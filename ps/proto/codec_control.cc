// Any connection's messages, and those of `psctl`.

#include "ps/proto/codec.h"

namespace ps::proto::codec {

Offset<wire::Hello> Encode(Fbb& b, const Hello& m) {
  const auto token = b.CreateString(m.token);
  const auto node = MakeText(b, m.node, kNameBytesMax);
  return wire::CreateHello(b, EnumTo<wire::Role>(m.role), token, node, m.incarnation.value, m.term);
}

void Decode(Decoder& d, const wire::Hello& w, Hello* m) {
  m->role = d.Enum<Role>(w.role(), "role");
  m->token = d.Text(w.token(), kNameBytesMax, "token");
  m->node = d.Text(w.node(), kNameBytesMax, "node");
  m->incarnation = Incarnation(w.incarnation());
  m->term = w.term();
}

Offset<wire::HelloReply> Encode(Fbb& b, const HelloReply& m) {
  return wire::CreateHelloReply(b, MakeText(b, m.node, kNameBytesMax), m.term);
}

void Decode(Decoder& d, const wire::HelloReply& w, HelloReply* m) {
  m->node = d.Text(w.node(), kNameBytesMax, "node");
  m->term = w.term();
}

Offset<wire::Refusal> Encode(Fbb& b, const Refusal& m) {
  const auto message = MakeText(b, m.message, kTextBytesMax);
  return wire::CreateRefusal(
      b, EnumTo<wire::StatusCode>(m.code), message, m.retry_after_ms, m.step);
}

void Decode(Decoder& d, const wire::Refusal& w, Refusal* m) {
  m->code = d.Enum<StatusCode>(w.code(), "code");
  if (m->code == StatusCode::kOk) {
    d.Fail("code says ok in a refusal");
  }
  m->message = d.Text(w.message(), kTextBytesMax, "message");
  m->retry_after_ms = w.retry_after_ms();
  m->step = w.step();
}

Offset<wire::WorkerRow> Encode(Fbb& b, const WorkerRow& m) {
  const auto state = MakeText(b, m.state, kNameBytesMax);
  const auto host = MakeText(b, m.host, kNameBytesMax);
  const auto reason = MakeText(b, m.reason, kNameBytesMax);
  const auto device = MakeText(b, m.device, kDeviceBytesMax);
  const auto type = MakeText(b, m.type, kNameBytesMax);
  const wire::WorkerStats stats = EncodeStats(m.stats);
  wire::WorkerRowBuilder out(b);
  out.add_worker(m.worker.value);
  out.add_incarnation(m.incarnation.value);
  out.add_state(state);
  out.add_host(host);
  out.add_pid(m.pid);
  out.add_minibatch(m.minibatch);
  out.add_slowdown(m.slowdown);
  out.add_stats(&stats);
  out.add_lease(m.lease.value);
  out.add_clock(m.clock);
  out.add_staleness(m.staleness);
  out.add_silent_s(m.silent_s);
  out.add_samples_counted(m.samples_counted);
  out.add_steps_late(m.stats.steps_late);
  out.add_reason(reason);
  out.add_device(device);
  out.add_type(type);
  out.add_usd_per_hour(m.usd_per_hour);
  return out.Finish();
}

void Decode(Decoder& d, const wire::WorkerRow& w, WorkerRow* m) {
  m->worker = WorkerId(w.worker());
  m->incarnation = Incarnation(w.incarnation());
  m->state = d.Text(w.state(), kNameBytesMax, "worker.state");
  m->host = d.Text(w.host(), kNameBytesMax, "worker.host");
  m->pid = w.pid();
  m->minibatch = w.minibatch();
  m->slowdown = w.slowdown();
  if (d.Present(w.stats(), "worker.stats")) {
    m->stats = DecodeStats(*w.stats(), w.steps_late());
  }
  m->lease = LeaseId(w.lease());
  m->clock = w.clock();
  m->staleness = w.staleness();
  m->silent_s = w.silent_s();
  m->samples_counted = w.samples_counted();
  m->reason = d.Text(w.reason(), kNameBytesMax, "worker.reason");
  m->device = d.Text(w.device(), kDeviceBytesMax, "worker.device");
  m->type = d.Text(w.type(), kNameBytesMax, "worker.type");
  m->usd_per_hour = w.usd_per_hour();
}

Offset<wire::ShardRow> Encode(Fbb& b, const ShardRow& m) {
  const auto address = MakeText(b, m.address, kNameBytesMax);
  const auto state = MakeText(b, m.state, kNameBytesMax);
  const auto stats = Encode(b, m.stats);
  return wire::CreateShardRow(
      b, m.shard.value, address, m.pid, state, stats, m.received_bytes_per_s, m.sent_bytes_per_s);
}

void Decode(Decoder& d, const wire::ShardRow& w, ShardRow* m) {
  m->shard = ShardId(w.shard());
  m->address = d.Text(w.address(), kNameBytesMax, "shard.address");
  m->pid = w.pid();
  m->state = d.Text(w.state(), kNameBytesMax, "shard.state");
  if (d.Present(w.stats(), "shard.stats")) {
    Decode(d, *w.stats(), &m->stats);
  }
  m->received_bytes_per_s = w.received_bytes_per_s();
  m->sent_bytes_per_s = w.sent_bytes_per_s();
}

Offset<wire::JournalStatus> Encode(Fbb& b, const JournalStatus& m) {
  const auto trouble = MakeText(b, m.trouble, kTextBytesMax);
  return wire::CreateJournalStatus(b, m.is_on, m.restarts, m.failures, trouble);
}

void Decode(Decoder& d, const wire::JournalStatus& w, JournalStatus* m) {
  m->is_on = w.is_on();
  m->restarts = w.restarts();
  m->failures = w.failures();
  m->trouble = d.Text(w.trouble(), kTextBytesMax, "trouble");
}

Offset<wire::CopyStatus> Encode(Fbb& b, const CopyStatus& m) {
  const auto target = MakeText(b, m.target, kTextBytesMax);
  const auto trouble = MakeText(b, m.trouble, kTextBytesMax);
  return wire::CreateCopyStatus(b, target, m.newest, m.copied, m.failed, m.sent_bytes, trouble);
}

void Decode(Decoder& d, const wire::CopyStatus& w, CopyStatus* m) {
  m->target = d.Text(w.target(), kTextBytesMax, "target");
  m->newest = w.newest();
  m->copied = w.copied();
  m->failed = w.failed();
  m->sent_bytes = w.sent_bytes();
  m->trouble = d.Text(w.trouble(), kTextBytesMax, "trouble");
}

namespace {

/// The parts of a JobStatus that have to be in the buffer before its table.
struct JobStatusParts {
  Offset<flatbuffers::String> name, run_directory, state, detail, model_file, model_problem;
  Offset<TableVector<wire::WorkerRow>> workers;
  Offset<TableVector<wire::ShardRow>> shards;
  Offset<StructVector<wire::LedgerRow>> ledger;
  Offset<StructVector<wire::EvaluationRow>> evaluations;
  Offset<TableVector<wire::Wait>> waits;
  Offset<wire::CheckpointStatus> checkpoints;
  Offset<wire::JournalStatus> journal;
  Offset<wire::CopyStatus> copies;
  Offset<TableVector<wire::FleetRow>> fleet;
  Offset<wire::ServersStatus> servers;
  Offset<wire::ModesStatus> modes;
  Offset<TableVector<wire::EventRow>> events;
};

JobStatusParts EncodeParts(Fbb& b, const JobStatus& m) {
  JobStatusParts parts;
  parts.name = MakeText(b, m.name, kNameBytesMax);
  parts.run_directory = MakeText(b, m.run_directory, kTextBytesMax);
  parts.state = MakeText(b, m.state, kNameBytesMax);
  parts.detail = MakeText(b, m.detail, kTextBytesMax);
  parts.workers = MakeTables(b, m.workers);
  parts.shards = MakeTables(b, m.shards);
  parts.ledger = MakeStructs<wire::LedgerRow>(b, m.ledger, [](const LedgerRow& r) {
    return wire::LedgerRow(
        r.epoch, r.samples_total, r.samples_counted, r.samples_leased, r.samples_returned);
  });
  parts.evaluations =
      MakeStructs<wire::EvaluationRow>(b, m.evaluations, [](const EvaluationRow& r) {
        return wire::EvaluationRow(r.epoch, r.accuracy, r.loss, r.samples, r.at_s);
      });
  parts.waits = MakeTables(b, m.waits);
  parts.model_file = MakeText(b, m.model_file, kTextBytesMax);
  parts.model_problem = MakeText(b, m.model_problem, kTextBytesMax);
  parts.checkpoints = Encode(b, m.checkpoints);
  parts.journal = Encode(b, m.journal);
  parts.copies = Encode(b, m.copies);
  parts.fleet = MakeTables(b, m.fleet);
  parts.servers = Encode(b, m.servers);
  parts.events = MakeTables(b, m.events);
  parts.modes = Encode(b, m.modes);
  return parts;
}

}  // namespace

Offset<wire::JobStatus> Encode(Fbb& b, const JobStatus& m) {
  const JobStatusParts parts = EncodeParts(b, m);
  wire::JobStatusBuilder out(b);
  out.add_name(parts.name);
  out.add_run_directory(parts.run_directory);
  out.add_state(parts.state);
  out.add_detail(parts.detail);
  out.add_mode(EnumTo<wire::Mode>(m.mode));
  out.add_epochs(m.epochs);
  out.add_samples_total(m.samples_total);
  out.add_samples_counted(m.samples_counted);
  out.add_samples_rejected(m.samples_rejected);
  out.add_steps_counted(m.steps_counted);
  out.add_steps_lost(m.steps_lost);
  out.add_steps_partial(m.steps_partial);
  out.add_revocations_noticed(m.revocations_noticed);
  out.add_revocations_unnoticed(m.revocations_unnoticed);
  out.add_joins(m.joins);
  out.add_elapsed_s(m.elapsed_s);
  out.add_samples_per_s(m.samples_per_s);
  out.add_eta_s(m.eta_s);
  out.add_train_loss(m.train_loss);
  out.add_train_accuracy(m.train_accuracy);
  out.add_generation(m.generation.value);
  out.add_round(m.round);
  out.add_max_detect_s(m.max_detect_s);
  out.add_workers_wanted(m.workers_wanted);
  out.add_server_max_detect_s(m.server_max_detect_s);
  out.add_workers(parts.workers);
  out.add_shards(parts.shards);
  out.add_ledger(parts.ledger);
  out.add_evaluations(parts.evaluations);
  out.add_waits(parts.waits);
  out.add_model_file(parts.model_file);
  out.add_model_problem(parts.model_problem);
  out.add_checkpoints(parts.checkpoints);
  out.add_journal(parts.journal);
  out.add_copies(parts.copies);
  out.add_fleet(parts.fleet);
  out.add_servers(parts.servers);
  out.add_usd_spent(m.usd_spent);
  out.add_usd_per_hour(m.usd_per_hour);
  out.add_events(parts.events);
  out.add_modes(parts.modes);
  return out.Finish();
}

namespace {

void DecodeRows(Decoder& d, const wire::JobStatus& w, JobStatus* m) {
  d.Tables(w.workers(), "workers", &m->workers);
  d.Tables(w.shards(), "shards", &m->shards);
  d.Structs(w.ledger(), "ledger", &m->ledger, [](const wire::LedgerRow& r) {
    return LedgerRow{
        r.epoch(),
        r.samples_total(),
        r.samples_counted(),
        r.samples_leased(),
        r.samples_returned()};
  });
  d.Structs(w.evaluations(), "evaluations", &m->evaluations, [](const wire::EvaluationRow& r) {
    return EvaluationRow{r.epoch(), r.accuracy(), r.loss(), r.samples(), r.at_s()};
  });
  d.Tables(w.waits(), "waits", &m->waits);
  if (d.Present(w.checkpoints(), "checkpoints")) {
    Decode(d, *w.checkpoints(), &m->checkpoints);
  }
  if (d.Present(w.journal(), "journal")) {
    Decode(d, *w.journal(), &m->journal);
  }
  if (d.Present(w.servers(), "servers")) {
    Decode(d, *w.servers(), &m->servers);
  }
  if (d.Present(w.modes(), "modes")) {
    Decode(d, *w.modes(), &m->modes);
  }
  if (d.Present(w.copies(), "copies")) {
    Decode(d, *w.copies(), &m->copies);
  }
  d.Tables(w.fleet(), "fleet", &m->fleet);
  d.Tables(w.events(), "events", &m->events);
}

}  // namespace

void Decode(Decoder& d, const wire::JobStatus& w, JobStatus* m) {
  m->name = d.Text(w.name(), kNameBytesMax, "name");
  m->run_directory = d.Text(w.run_directory(), kTextBytesMax, "run_directory");
  m->state = d.Text(w.state(), kNameBytesMax, "state");
  m->detail = d.Text(w.detail(), kTextBytesMax, "detail");
  m->mode = d.Enum<Mode>(w.mode(), "mode");
  m->epochs = w.epochs();
  m->samples_total = w.samples_total();
  m->samples_counted = w.samples_counted();
  m->samples_rejected = w.samples_rejected();
  m->steps_counted = w.steps_counted();
  m->steps_lost = w.steps_lost();
  m->steps_partial = w.steps_partial();
  m->revocations_noticed = w.revocations_noticed();
  m->revocations_unnoticed = w.revocations_unnoticed();
  m->joins = w.joins();
  m->elapsed_s = w.elapsed_s();
  m->samples_per_s = w.samples_per_s();
  m->eta_s = w.eta_s();
  m->train_loss = w.train_loss();
  m->train_accuracy = w.train_accuracy();
  m->generation = Generation(w.generation());
  m->round = w.round();
  m->max_detect_s = w.max_detect_s();
  m->workers_wanted = w.workers_wanted();
  m->server_max_detect_s = w.server_max_detect_s();
  m->usd_spent = w.usd_spent();
  m->usd_per_hour = w.usd_per_hour();
  DecodeRows(d, w, m);
  m->model_file = d.Text(w.model_file(), kTextBytesMax, "model_file");
  m->model_problem = d.Text(w.model_problem(), kTextBytesMax, "model_problem");
}

Offset<wire::StatusRequest> Encode(Fbb& b, const StatusRequest& /*m*/) {
  return wire::CreateStatusRequest(b);
}

void Decode(Decoder& /*d*/, const wire::StatusRequest& /*w*/, StatusRequest* /*m*/) {}

namespace {

size_t ClockCount(const JobStatus& status) {
  size_t count = 0;
  for (const ShardRow& shard : status.shards) {
    count += shard.stats.workers.size();
  }
  return count;
}

template <typename V>
void KeepFirst(size_t count, std::vector<V>* list) {
  list->resize(std::min(list->size(), count));
}

template <typename V>
void KeepLast(size_t count, std::vector<V>* list) {
  list->erase(list->begin(), list->end() - static_cast<int64_t>(std::min(list->size(), count)));
}

/// What a frame has no room for is left out, the least wanted first: workers that have left, old
/// epochs, the clocks behind WorkerRow::clock.
JobStatus Fitted(JobStatus status) {
  KeepFirst(kStatusWorkersMax, &status.workers);
  KeepFirst(kShardsMax, &status.shards);
  KeepLast(kStatusEpochsMax, &status.ledger);
  KeepLast(kStatusEpochsMax, &status.evaluations);
  KeepFirst(kStatusWaitsMax, &status.waits);
  KeepFirst(kStatusGroupsMax, &status.fleet);
  KeepLast(kStatusWaitsMax, &status.events);
  for (Wait& wait : status.waits) {
    wait.for_whom.resize(std::min(wait.for_whom.size(), kStatusWaitBytesMax));
    wait.what.resize(std::min(wait.what.size(), kStatusWaitBytesMax));
  }
  if (ClockCount(status) > kStatusClocksMax) {
    for (ShardRow& shard : status.shards) {
      shard.stats.workers.clear();
    }
  }
  return status;
}

bool MayBeTooLong(const JobStatus& status) {
  constexpr size_t kRows = 100;  // of each kind; they fit, whatever is in them
  return status.workers.size() > kRows || status.shards.size() > kRows ||
         status.ledger.size() > kRows || status.evaluations.size() > kRows ||
         status.waits.size() > kRows || status.fleet.size() > kRows ||
         status.events.size() > kRows || ClockCount(status) > kRows * kRows;
}

}  // namespace

Offset<wire::StatusReply> Encode(Fbb& b, const StatusReply& m) {
  const auto status = MayBeTooLong(m.status) ? Encode(b, Fitted(m.status)) : Encode(b, m.status);
  return wire::CreateStatusReply(b, status);
}

void Decode(Decoder& d, const wire::StatusReply& w, StatusReply* m) {
  if (d.Present(w.status(), "status")) {
    Decode(d, *w.status(), &m->status);
  }
}

Offset<wire::StopRequest> Encode(Fbb& b, const StopRequest& m) {
  return wire::CreateStopRequest(b, m.is_immediate);
}

void Decode(Decoder& /*d*/, const wire::StopRequest& w, StopRequest* m) {
  m->is_immediate = w.is_immediate();
}

Offset<wire::StopReply> Encode(Fbb& b, const StopReply& /*m*/) {
  return wire::CreateStopReply(b);
}

void Decode(Decoder& /*d*/, const wire::StopReply& /*w*/, StopReply* /*m*/) {}

}  // namespace ps::proto::codec
