// The saved form of a job's state: 16 bytes of header, then a FlatBuffer.
//
//   "SPJS" | version u32 | CRC-32C of the FlatBuffer u32 | 0 u32 | FlatBuffer
//
// The checksum finds damage; what is verified behind it keeps a state that was made up from
// reading outside the bytes, and from taking more memory than they have.

#include "ps/proto/job_state.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>

#include "job_state_v14_generated.h"
#include "ps/base/crc32c.h"
#include "ps/proto/codec_state.h"

namespace ps::proto {
namespace codec {

static_assert(static_cast<int>(saved::JobPhase::MAX) == static_cast<int>(JobPhase::kFinished));

namespace {

constexpr uint32_t kStateDepthMax = 16;

Offset<saved::CheckpointsState> Encode(Fbb& b, const CheckpointsState& m) {
  const auto kept =
      MakeStructs<saved::KeptCheckpoint>(b, m.kept, [](const KeptCheckpoint& checkpoint) {
        return saved::KeptCheckpoint(checkpoint.checkpoint, checkpoint.steps, checkpoint.shards);
      });
  const auto damage = EncodeText(b, m.damage);
  std::vector<uint64_t> samples;
  samples.reserve(m.kept.size());
  for (const KeptCheckpoint& checkpoint : m.kept) {
    samples.push_back(checkpoint.samples);
  }
  const auto kept_samples = b.CreateVector(samples);
  return saved::CreateCheckpointsState(
      b,
      m.next,
      kept,
      m.committed,
      m.failed,
      m.skipped,
      m.shards_restored,
      m.steps_undone,
      m.rollbacks,
      m.samples_undone,
      m.seconds_undone,
      m.damaged,
      damage,
      m.is_going_back,
      m.newest_at.count(),
      kept_samples);
}

void Decode(Decoder& d, const saved::CheckpointsState& w, CheckpointsState* m) {
  m->next = w.next();
  d.Structs(w.kept(), "kept", &m->kept, [](const saved::KeptCheckpoint& kept) {
    return KeptCheckpoint{kept.checkpoint(), kept.shards(), kept.steps()};
  });
  // Beside `kept`, whose entries are of a fixed size, so that earlier states can be read.
  const auto* const samples = w.kept_samples();
  for (uint32_t i = 0; samples != nullptr && i < samples->size() && i < m->kept.size(); ++i) {
    m->kept[i].samples = samples->Get(i);
  }
  m->committed = w.committed();
  m->failed = w.failed();
  m->skipped = w.skipped();
  m->shards_restored = w.shards_restored();
  m->steps_undone = w.steps_undone();
  m->rollbacks = w.rollbacks();
  m->samples_undone = w.samples_undone();
  m->seconds_undone = w.seconds_undone();
  m->damaged = w.damaged();
  m->damage = d.Text(w.damage(), kTextBytesMax, "damage");
  m->is_going_back = w.is_going_back();
  m->newest_at = Duration(w.newest_at_ns());
}

Offset<saved::ServersState> Encode(Fbb& b, const ServersState& m) {
  const auto trouble = EncodeText(b, m.trouble);
  const auto shares = b.CreateVector(m.shares);
  const auto pins = MakeStructs<saved::PinnedChunk>(b, m.pins, [](const PinnedChunk& pin) {
    return saved::PinnedChunk(pin.key.value, pin.server);
  });
  Offset<saved::ChunkMove> chunks;
  if (m.chunks) {
    const auto keys = EncodeIds(b, m.chunks->keys);
    chunks = saved::CreateChunkMove(
        b, m.chunks->version, m.chunks->from.value, m.chunks->to.value, keys);
  }
  return saved::CreateServersState(
      b,
      m.wanted,
      m.moves,
      trouble,
      m.is_spreading,
      chunks,
      m.settled_by,
      shares,
      m.gone_life,
      pins);
}

/// `Saved`: ServersState, or the form of an older version.
template <typename Saved>
void DecodeServers(Decoder& d, const Saved& w, ServersState* m) {
  m->wanted = w.wanted();
  m->moves = w.moves();
  m->trouble = d.Text(w.trouble(), kTextBytesMax, "trouble");
  m->is_spreading = w.is_spreading();
  if (const saved::ChunkMove* const chunks = w.chunks(); chunks != nullptr) {
    m->chunks = ChunkMove{chunks->version(), ShardId(chunks->from()), ShardId(chunks->to()), {}};
    DecodeIds(d, chunks->keys(), "keys", &m->chunks->keys);
  }
  m->settled_by = w.settled_by();
  d.Scalars(w.shares(), "shares", &m->shares);
  m->gone_life = w.gone_life();
  d.Structs(w.pins(), "pins", &m->pins, [](const saved::PinnedChunk& pin) {
    return PinnedChunk{ChunkKey(pin.key()), pin.server()};
  });
}

Offset<saved::ModesState> Encode(Fbb& b, const ModesState& m) {
  const wire::ModeChoice in_force = EncodeMode(m.in_force);
  const wire::ModeChoice wanted = EncodeMode(m.wanted);
  const auto switches = EncodeSwitches(b, m.switches);
  const auto sit_outs =
      MakeStructs<saved::SitOutRecord>(b, m.sit_outs, [](const SitOutRecord& sit_out) {
        return saved::SitOutRecord(
            sit_out.incarnation.value,
            sit_out.usual_s,
            sit_out.slowdown,
            sit_out.until.count(),
            sit_out.times,
            sit_out.is_out,
            sit_out.is_trial);
      });
  return saved::CreateModesState(
      b,
      &in_force,
      &wanted,
      m.is_wanted_by_policy,
      m.is_holding,
      m.since.value,
      m.is_policy_over,
      switches,
      sit_outs);
}

void Decode(Decoder& d, const saved::ModesState& w, ModesState* m) {
  m->in_force = DecodeMode(d, w.in_force(), "in_force");
  m->wanted = DecodeMode(d, w.wanted(), "wanted");
  m->is_wanted_by_policy = w.is_wanted_by_policy();
  m->is_holding = w.is_holding();
  m->since = Generation(w.since());
  m->is_policy_over = w.is_policy_over();
  DecodeSwitches(d, w.switches(), &m->switches);
  d.Structs(w.sit_outs(), "sit_outs", &m->sit_outs, [](const saved::SitOutRecord& sit_out) {
    return SitOutRecord{
        Incarnation(sit_out.incarnation()),
        sit_out.is_out(),
        sit_out.is_trial(),
        sit_out.times(),
        sit_out.usual_s(),
        sit_out.slowdown(),
        Duration(sit_out.until_ns())};
  });
}

Offset<StructVector<saved::HandoverRecord>> EncodeHandovers(
    Fbb& b, const std::map<uint32_t, HandoverRecord>& handovers) {
  const std::vector<std::pair<uint32_t, HandoverRecord>> all(handovers.begin(), handovers.end());
  return MakeStructs<saved::HandoverRecord>(b, all, [](const auto& handover) {
    return saved::HandoverRecord(
        handover.first,
        handover.second.due.count(),
        handover.second.checkpoint,
        handover.second.holds_until.count());
  });
}

void DecodeHandovers(
    Decoder& d,
    const StructVector<saved::HandoverRecord>* w,
    std::map<uint32_t, HandoverRecord>* m) {
  std::vector<std::pair<uint32_t, HandoverRecord>> all;
  d.Structs(w, "handovers", &all, [](const saved::HandoverRecord& handover) {
    return std::pair(
        handover.server(),
        HandoverRecord{
            Duration(handover.due_ns()),
            handover.checkpoint(),
            Duration(handover.holds_until_ns())});
  });
  for (const auto& [server, handover] : all) {
    if (!m->emplace(server, handover).second) {
      d.Fail(fmt::format("handovers has {} twice", server));
    }
  }
}

/// Texts and tables that have to be in the buffer before the state's own table.
struct Totals {
  Offset<flatbuffers::String> outcome_message, stop_reason, leave_reason, model_file, model_problem;
  Offset<saved::CheckpointsState> checkpoints;
  Offset<flatbuffers::Vector<uint32_t>> wanted;
  Offset<StructVector<saved::HandoverRecord>> handovers;
  Offset<saved::ServersState> servers;
  Offset<saved::ModesState> modes;
  Offset<flatbuffers::Vector<Offset<saved::PlaceRecord>>> places;
};

Totals EncodeTotals(Fbb& b, const JobState& m) {
  Totals totals;
  totals.outcome_message = EncodeText(b, m.outcome.message());
  totals.stop_reason = EncodeText(b, m.stop_reason);
  totals.leave_reason = EncodeText(b, m.leave_reason);
  totals.model_file = EncodeText(b, m.model.file);
  totals.model_problem = EncodeText(b, m.model.problem);
  totals.checkpoints = Encode(b, m.checkpoints);
  totals.wanted = b.CreateVector(m.wanted);
  totals.handovers = EncodeHandovers(b, m.handovers);
  totals.servers = Encode(b, m.servers);
  totals.modes = Encode(b, m.modes);
  totals.places = MakeList(b, m.places);
  return totals;
}

void AddTotals(const JobState& m, const Totals& totals, saved::JobStateBuilder* out) {
  const saved::MeterState meter(m.meter.loss, m.meter.accuracy, m.meter.has_step);
  const saved::JobCounters counters(
      m.counters.steps_counted,
      m.counters.steps_lost,
      m.counters.steps_partial,
      m.counters.samples_rejected,
      m.counters.revocations_noticed,
      m.counters.revocations_unnoticed,
      m.counters.joins);
  const saved::PauseRecord pause(m.pause.is_on, m.pause.checkpoint);
  const saved::ParkRecord park(m.park.is_on);
  const RunData data = m.data.value_or(RunData{});
  const saved::RunData run_data(EncodeData(data.fingerprint), data.worker.value);
  out->add_phase(EnumTo<saved::JobPhase>(m.phase));
  out->add_outcome(EnumTo<wire::StatusCode>(m.outcome.code()));
  out->add_outcome_message(totals.outcome_message);
  out->add_stop_reason(totals.stop_reason);
  out->add_leave_reason(totals.leave_reason);
  out->add_is_told_shards(m.is_told_shards);
  out->add_restarts(m.restarts);
  out->add_epochs_finished(m.epochs_finished);
  out->add_faults_fired(m.faults_fired);
  out->add_meter(&meter);
  out->add_counters(&counters);
  out->add_last_launch(m.last_launch.value);
  out->add_is_model_due(m.model.is_due);
  out->add_model_file(totals.model_file);
  out->add_model_problem(totals.model_problem);
  out->add_checkpoints(totals.checkpoints);
  out->add_wanted(totals.wanted);
  out->add_handovers(totals.handovers);
  out->add_servers(totals.servers);
  out->add_pause(&pause);
  out->add_modes(totals.modes);
  out->add_park(&park);
  out->add_places(totals.places);
  if (m.data) {
    out->add_data(&run_data);
  }
}

Offset<StructVector<saved::KillRecord>> EncodeKills(
    Fbb& b, const std::map<WorkerId, KillRecord>& kills) {
  const std::vector<std::pair<WorkerId, KillRecord>> all(kills.begin(), kills.end());
  return MakeStructs<saved::KillRecord>(b, all, [](const auto& kill) {
    return saved::KillRecord(
        kill.first.value,
        kill.second.incarnation.value,
        kill.second.due.count(),
        kill.second.is_sudden,
        kill.second.is_release);
  });
}

void DecodeKills(
    Decoder& d, const StructVector<saved::KillRecord>* w, std::map<WorkerId, KillRecord>* m) {
  std::vector<std::pair<WorkerId, KillRecord>> all;
  d.Structs(w, "kills", &all, [](const saved::KillRecord& kill) {
    const KillRecord record = {
        Incarnation(kill.incarnation()),
        Duration(kill.due_ns()),
        kill.is_sudden(),
        kill.is_release()};
    return std::pair(WorkerId(kill.seat()), record);
  });
  for (const auto& [seat, kill] : all) {
    PutOnce(d, "kills", seat, kill, m);
  }
}

/// Nothing, when the part is not wanted.
template <typename F>
auto EncodeIf(bool is_wanted, F encode) -> decltype(encode()) {
  return is_wanted ? encode() : decltype(encode())();
}

void DecodeTotals(Decoder& d, const saved::JobState& w, JobState* m) {
  m->phase = d.Enum<JobPhase>(w.phase(), "phase");
  m->outcome = Status(
      d.Enum<StatusCode>(w.outcome(), "outcome"),
      d.Text(w.outcome_message(), kTextBytesMax, "outcome_message"));
  m->stop_reason = d.Text(w.stop_reason(), kTextBytesMax, "stop_reason");
  m->leave_reason = d.Text(w.leave_reason(), kTextBytesMax, "leave_reason");
  m->is_told_shards = w.is_told_shards();
  m->restarts = w.restarts();
  m->epochs_finished = w.epochs_finished();
  m->faults_fired = w.faults_fired();
  if (d.Present(w.meter(), "meter")) {
    m->meter = {w.meter()->loss(), w.meter()->accuracy(), w.meter()->has_step()};
  }
  if (d.Present(w.counters(), "counters")) {
    const saved::JobCounters& c = *w.counters();
    m->counters = {
        c.steps_counted(),
        c.steps_lost(),
        c.steps_partial(),
        c.samples_rejected(),
        c.revocations_noticed(),
        c.revocations_unnoticed(),
        c.joins()};
  }
  m->last_launch = LaunchId(w.last_launch());
  m->model.is_due = w.is_model_due();
  m->model.file = d.Text(w.model_file(), kTextBytesMax, "model_file");
  m->model.problem = d.Text(w.model_problem(), kTextBytesMax, "model_problem");
  if (d.Present(w.checkpoints(), "checkpoints")) {
    Decode(d, *w.checkpoints(), &m->checkpoints);
  }
  d.Scalars(w.wanted(), "wanted", &m->wanted);
  DecodeHandovers(d, w.handovers(), &m->handovers);
  if (d.Present(w.modes(), "modes")) {
    Decode(d, *w.modes(), &m->modes);
  }
  if (w.pause() != nullptr) {
    m->pause = {w.pause()->is_on(), w.pause()->checkpoint()};
  }
  m->park.is_on = w.park() != nullptr && w.park()->is_on();
  d.Tables(w.places(), "places", &m->places);
  if (w.data() != nullptr) {
    m->data = {DecodeData(w.data()->fingerprint()), WorkerId(w.data()->worker())};
  }
}

}  // namespace

Offset<saved::JobState> Encode(Fbb& b, const JobState& m, uint32_t parts) {
  const auto has = [parts](uint32_t wanted) { return (parts & wanted) != 0; };
  const bool has_totals = has(kTotalsPart);
  const auto config_json =
      EncodeIf(has(kConfigPart), [&] { return b.CreateString(m.config_json); });
  const Totals totals = EncodeIf(has_totals, [&] { return EncodeTotals(b, m); });
  const auto placement = EncodeIf(has(kPlacementPart), [&] { return Encode(b, m.placement); });
  const auto shards = EncodeIf(has(kShardsPart), [&] { return MakeList(b, m.shards); });
  const auto membership =
      EncodeIf(has(kMembershipPart | kTotalsPart), [&] { return Encode(b, m.membership); });
  const auto seats = EncodeIf(has(kSeatsPart | kTotalsPart), [&] { return Encode(b, m.seats); });
  const auto ledger = EncodeIf(has(kLedgerPart | kTotalsPart), [&] { return Encode(b, m.ledger); });
  const auto evaluations =
      EncodeIf(has(kEvaluationsPart), [&] { return Encode(b, m.evaluations); });
  const auto rounds = EncodeIf(has(kRoundsPart | kTotalsPart), [&] { return Encode(b, m.rounds); });
  const auto kills = EncodeIf(has(kKillsPart), [&] { return EncodeKills(b, m.kills); });
  saved::JobStateBuilder out(b);
  out.add_config_json(config_json);
  if (has_totals) {
    AddTotals(m, totals, &out);
  }
  out.add_placement(placement);
  out.add_shards(shards);
  out.add_membership(membership);
  out.add_seats(seats);
  out.add_ledger(ledger);
  out.add_evaluations(evaluations);
  out.add_rounds(rounds);
  out.add_kills(kills);
  if (has(kTimesPart)) {
    out.add_age_ns(m.age.count());
    out.add_usd(m.usd);
    out.add_trained_ns(m.trained ? m.trained->count() : -1);
    out.add_is_trained(m.is_trained);
  }
  return out.Finish();
}

namespace {

/// Parts of all versions alike: all but ServersState.
void DecodeLasting(Decoder& d, const saved::JobState& w, uint32_t parts, JobState* m) {
  const auto has = [parts](uint32_t wanted) { return (parts & wanted) != 0; };
  const auto part = [&d](bool is_wanted, const auto* table, const char* field, auto* out) {
    if (is_wanted && d.Present(table, field)) {
      Decode(d, *table, out);
    }
  };
  if (has(kConfigPart)) {
    m->config_json = d.Text(w.config_json(), kConfigBytesMax, "config_json");
  }
  if (has(kTotalsPart)) {
    DecodeTotals(d, w, m);
  }
  part(has(kPlacementPart), w.placement(), "placement", &m->placement);
  if (has(kShardsPart)) {
    d.Tables(w.shards(), "shards", &m->shards);
  }
  part(has(kMembershipPart | kTotalsPart), w.membership(), "membership", &m->membership);
  part(has(kSeatsPart | kTotalsPart), w.seats(), "seats", &m->seats);
  part(has(kLedgerPart | kTotalsPart), w.ledger(), "ledger", &m->ledger);
  part(has(kEvaluationsPart), w.evaluations(), "evaluations", &m->evaluations);
  part(has(kRoundsPart | kTotalsPart), w.rounds(), "rounds", &m->rounds);
  if (has(kKillsPart)) {
    DecodeKills(d, w.kills(), &m->kills);
  }
  if (has(kTimesPart)) {
    m->age = Duration(w.age_ns());
    m->usd = w.usd();
    if (w.trained_ns() >= 0) {
      m->trained = Duration(w.trained_ns());
    }
    m->is_trained = w.is_trained();
  }
}

/// `Saved`: the root table of the version that wrote the bytes.
template <typename Saved>
Result<JobState> DecodeAs(std::span<const std::byte> body, uint32_t parts) {
  // FlatBuffers reads 64-bit numbers in place.
  std::vector<uint64_t> aligned((body.size() + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  if (!body.empty()) {
    std::memcpy(aligned.data(), body.data(), body.size());
  }
  const auto* const data = reinterpret_cast<const uint8_t*>(aligned.data());
  const auto tables_max = static_cast<flatbuffers::uoffset_t>(body.size() / 8 + 1);
  flatbuffers::Verifier verifier(data, body.size(), kStateDepthMax, tables_max);
  if (!verifier.VerifyBuffer<Saved>(nullptr)) {
    return Status::Corruption("it is a malformed FlatBuffer");
  }
  JobState state;
  Decoder decoder(body.size());
  // All versions have the same root table but for the type of `servers`.
  DecodeLasting(decoder, *flatbuffers::GetRoot<saved::JobState>(data), parts, &state);
  const auto* const servers = flatbuffers::GetRoot<Saved>(data)->servers();
  if ((parts & kTotalsPart) != 0 && decoder.Present(servers, "servers")) {
    DecodeServers(decoder, *servers, &state.servers);
  }
  if (!decoder.status().ok()) {
    return Status::Corruption(std::string(decoder.status().message()));
  }
  return state;
}

}  // namespace

Result<JobState> DecodeParts(std::span<const std::byte> body, uint32_t parts) {
  return DecodeAs<saved::JobState>(body, parts);
}

}  // namespace codec

namespace {

constexpr uint32_t kMagic = 0x534a5053;  // "SPJS"
/// States from this version on are read: at least of the one before the present one.
constexpr uint32_t kOldestJobStateVersion = 14;
static_assert(kOldestJobStateVersion < kJobStateVersion);

struct Header {
  uint32_t magic = kMagic;
  uint32_t version = kJobStateVersion;
  uint32_t crc = 0;
  uint32_t zero = 0;
};

static_assert(std::endian::native == std::endian::little, "the header is little-endian");

}  // namespace

std::vector<std::byte> EncodeJobState(const JobState& state) {
  codec::Fbb builder(4096);
  builder.Finish(codec::Encode(builder, state, codec::kAllParts));
  const std::span<const std::byte> body(
      reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize());
  Header header;
  header.crc = Crc32c(body);
  std::vector<std::byte> bytes(sizeof(Header) + body.size());
  std::memcpy(bytes.data(), &header, sizeof(Header));
  std::memcpy(bytes.data() + sizeof(Header), body.data(), body.size());
  return bytes;
}

Result<JobState> DecodeJobState(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() <= sizeof(Header)) {
    return Status::Corruption(fmt::format("{} bytes are no job state", bytes.size()));
  }
  std::memcpy(&header, bytes.data(), sizeof(Header));
  const std::span<const std::byte> body = bytes.subspan(sizeof(Header));
  if (header.magic != kMagic || header.zero != 0) {
    return Status::Corruption("these bytes are no job state");
  }
  if (header.version < kOldestJobStateVersion || header.version > kJobStateVersion) {
    return Status::Unsupported(fmt::format(
        "the job state has version {}; this program reads {} to {}; use a program that is {}",
        header.version,
        kOldestJobStateVersion,
        kJobStateVersion,
        header.version > kJobStateVersion ? "newer" : "older"));
  }
  if (header.crc != Crc32c(body)) {
    return Status::Corruption("the job state's checksum does not match");
  }
  constexpr uint32_t kLastWithOtherServers = 14;
  Result<JobState> state = header.version <= kLastWithOtherServers
                               ? codec::DecodeAs<saved::JobStateV14>(body, codec::kAllParts)
                               : codec::DecodeParts(body, codec::kAllParts);
  return std::move(state).Annotate("the job state");
}

}  // namespace ps::proto
