// The saved form of who takes part: members, the gone, seats, shards.

#include "ps/proto/codec_state.h"

namespace ps::proto::codec {
namespace {

std::vector<uint32_t> NumbersOf(const std::set<WorkerId>& seats) {
  std::vector<uint32_t> numbers;
  for (const WorkerId seat : seats) {
    numbers.push_back(seat.value);
  }
  return numbers;
}

std::set<WorkerId> SeatsOf(const std::vector<uint32_t>& numbers) {
  std::set<WorkerId> seats;
  for (const uint32_t number : numbers) {
    seats.insert(WorkerId(number));
  }
  return seats;
}

}  // namespace

static_assert(static_cast<int>(saved::LeaveKind::MAX) == static_cast<int>(LeaveKind::kFailed));

flatbuffers::Offset<flatbuffers::String> EncodeText(Fbb& b, std::string_view text) {
  return b.CreateString(text.data(), std::min(text.size(), kTextBytesMax));
}

Offset<saved::MemberRecord> Encode(Fbb& b, const MemberRecord& m) {
  const auto host = EncodeText(b, m.host);
  const auto device = EncodeText(b, m.device);
  const auto last_grant = Encode(b, m.last_grant);
  const wire::WorkerStats stats = EncodeStats(m.stats);
  saved::MemberRecordBuilder out(b);
  out.add_incarnation(m.incarnation.value);
  out.add_joined(m.joined.value);
  out.add_seat(m.seat.value);
  out.add_host(host);
  out.add_pid(m.pid);
  out.add_minibatch(m.minibatch);
  out.add_slowdown(m.slowdown);
  out.add_threads(m.threads);
  out.add_is_admitted(m.is_admitted);
  out.add_is_heard(m.is_heard);
  out.add_is_draining(m.is_draining);
  out.add_is_notified(m.is_notified);
  out.add_is_active(m.is_active);
  out.add_has_asked(m.has_asked);
  out.add_activated(m.activated.value);
  out.add_last_grant(last_grant);
  out.add_reported(m.reported);
  out.add_samples_counted(m.samples_counted);
  out.add_step_seconds(m.step_seconds);
  out.add_stats(&stats);
  out.add_steps_late(m.stats.steps_late);
  out.add_is_released(m.is_released);
  out.add_device(device);
  out.add_lives_missed(m.lives_missed);
  out.add_is_at_risk(m.is_at_risk);
  out.add_launch(m.launch.value);
  return out.Finish();
}

void Decode(Decoder& d, const saved::MemberRecord& w, MemberRecord* m) {
  m->incarnation = Incarnation(w.incarnation());
  m->joined = Generation(w.joined());
  m->seat = WorkerId(w.seat());
  m->host = d.Text(w.host(), kTextBytesMax, "host");
  m->pid = w.pid();
  m->minibatch = w.minibatch();
  m->slowdown = w.slowdown();
  m->threads = w.threads();
  m->device = d.Text(w.device(), kDeviceBytesMax, "device");
  m->is_admitted = w.is_admitted();
  m->is_heard = w.is_heard();
  m->is_draining = w.is_draining();
  m->is_notified = w.is_notified();
  m->is_released = w.is_released();
  m->is_active = w.is_active();
  m->has_asked = w.has_asked();
  m->activated = Generation(w.activated());
  if (d.Present(w.last_grant(), "last_grant")) {
    Decode(d, *w.last_grant(), &m->last_grant);
  }
  m->reported = w.reported();
  m->samples_counted = w.samples_counted();
  m->step_seconds = w.step_seconds();
  m->lives_missed = w.lives_missed();
  m->is_at_risk = w.is_at_risk();
  m->launch = LaunchId(w.launch());
  if (d.Present(w.stats(), "stats")) {
    m->stats = DecodeStats(*w.stats(), w.steps_late());
  }
}

Offset<saved::DepartureRecord> Encode(Fbb& b, const DepartureRecord& m) {
  const auto member = Encode(b, m.member);
  const auto reason = EncodeText(b, m.reason);
  const std::vector<std::pair<ShardId, MembershipAck::Resolved>> answers(
      m.answers.begin(), m.answers.end());
  const auto answer_structs = MakeStructs<saved::Answer>(b, answers, [](const auto& answer) {
    const MembershipAck::Resolved& r = answer.second;
    return saved::Answer(
        answer.first.value,
        wire::ResolvedStep(
            r.incarnation.value, r.last_complete_step, EnumTo<wire::PushOutcome>(r.outcome)));
  });
  return saved::CreateDepartureRecord(
      b,
      member,
      EnumTo<saved::LeaveKind>(m.kind),
      reason,
      m.has_said_goodbye,
      answer_structs,
      m.is_resolved,
      m.kept_for_round,
      m.generation.value);
}

void Decode(Decoder& d, const saved::DepartureRecord& w, DepartureRecord* m) {
  if (d.Present(w.member(), "member")) {
    Decode(d, *w.member(), &m->member);
  }
  m->kind = d.Enum<LeaveKind>(w.kind(), "kind");
  m->reason = d.Text(w.reason(), kTextBytesMax, "reason");
  m->has_said_goodbye = w.has_said_goodbye();
  std::vector<std::pair<ShardId, MembershipAck::Resolved>> answers;
  d.Structs(w.answers(), "answers", &answers, [&](const saved::Answer& answer) {
    const wire::ResolvedStep& r = answer.resolved();
    return std::pair(
        ShardId(answer.shard()),
        MembershipAck::Resolved{
            Incarnation(r.incarnation()),
            r.last_complete_step(),
            d.Enum<PushOutcome>(r.outcome(), "answers.outcome")});
  });
  for (const auto& [shard, answer] : answers) {
    PutOnce(d, "answers", shard, answer, &m->answers);
  }
  m->is_resolved = w.is_resolved();
  m->kept_for_round = w.kept_for_round();
  m->generation = Generation(w.generation());
}

Offset<saved::GoneWorker> Encode(Fbb& b, const GoneWorker& m) {
  const auto member = Encode(b, m.member);
  const auto reason = EncodeText(b, m.reason);
  return saved::CreateGoneWorker(b, member, EnumTo<saved::LeaveKind>(m.kind), reason);
}

void Decode(Decoder& d, const saved::GoneWorker& w, GoneWorker* m) {
  if (d.Present(w.member(), "member")) {
    Decode(d, *w.member(), &m->member);
  }
  m->kind = d.Enum<LeaveKind>(w.kind(), "kind");
  m->reason = d.Text(w.reason(), kTextBytesMax, "reason");
}

Offset<saved::MembershipState> Encode(Fbb& b, const MembershipState& m) {
  const auto members = MakeListOfValues(b, m.members);
  const auto departures = MakeListOfValues(b, m.departures);
  const std::vector<std::pair<ShardId, Generation>> acks(
      m.acknowledged.begin(), m.acknowledged.end());
  const auto acknowledged = MakeStructs<saved::Acknowledged>(b, acks, [](const auto& ack) {
    return saved::Acknowledged(ack.first.value, ack.second.value);
  });
  const auto gone = MakeList(b, m.gone);
  return saved::CreateMembershipState(
      b,
      m.generation.value,
      m.incarnation_max.value,
      members,
      departures,
      acknowledged,
      gone,
      m.gone_before);
}

void Decode(Decoder& d, const saved::MembershipState& w, MembershipState* m) {
  m->generation = Generation(w.generation());
  m->incarnation_max = Incarnation(w.incarnation_max());
  std::vector<MemberRecord> members;
  d.Tables(w.members(), "members", &members);
  for (MemberRecord& member : members) {
    PutOnce(d, "members", member.incarnation, std::move(member), &m->members);
  }
  std::vector<DepartureRecord> departures;
  d.Tables(w.departures(), "departures", &departures);
  for (DepartureRecord& departure : departures) {
    PutOnce(d, "departures", departure.member.incarnation, std::move(departure), &m->departures);
  }
  std::vector<std::pair<ShardId, Generation>> acknowledged;
  d.Structs(w.acknowledged(), "acknowledged", &acknowledged, [](const saved::Acknowledged& ack) {
    return std::pair(ShardId(ack.shard()), Generation(ack.generation()));
  });
  for (const auto& [shard, generation] : acknowledged) {
    PutOnce(d, "acknowledged", shard, generation, &m->acknowledged);
  }
  std::vector<GoneWorker> gone;
  d.Tables(w.gone(), "gone", &gone);
  m->gone.assign(gone.begin(), gone.end());
  m->gone_before = w.gone_before();
}

Offset<saved::SeatsState> Encode(Fbb& b, const SeatsState& m) {
  const std::vector<std::pair<WorkerId, uint32_t>> seats(m.added.begin(), m.added.end());
  const auto added = MakeStructs<saved::AddedSeat>(
      b, seats, [](const auto& seat) { return saved::AddedSeat(seat.first.value, seat.second); });
  const auto expected = b.CreateVector(NumbersOf(m.expected));
  const auto returning = b.CreateVector(NumbersOf(m.returning));
  std::vector<Offset<saved::SeatEnd>> ends;
  for (const auto& [seat, description] : m.ends) {
    const auto text = EncodeText(b, description);
    ends.push_back(saved::CreateSeatEnd(b, seat.value, text));
  }
  const auto ends_vector = b.CreateVector(ends);
  const std::vector<std::pair<WorkerId, uint32_t>> of_scaled(m.scaled.begin(), m.scaled.end());
  const auto scaled = MakeStructs<saved::ScaledSeat>(b, of_scaled, [](const auto& seat) {
    return saved::ScaledSeat(seat.first.value, seat.second);
  });
  const std::vector<std::pair<WorkerId, LaunchId>> of_seats(m.launches.begin(), m.launches.end());
  const auto launches = MakeStructs<saved::SeatLaunch>(b, of_seats, [](const auto& seat) {
    return saved::SeatLaunch(seat.second.value, seat.first.value);
  });
  return saved::CreateSeatsState(
      b, m.next, added, expected, ends_vector, scaled, returning, launches);
}

void Decode(Decoder& d, const saved::SeatsState& w, SeatsState* m) {
  m->next = w.next();
  std::vector<std::pair<WorkerId, uint32_t>> added;
  d.Structs(w.added(), "added", &added, [](const saved::AddedSeat& seat) {
    return std::pair(WorkerId(seat.seat()), seat.fault());
  });
  for (const auto& [seat, fault] : added) {
    PutOnce(d, "added", seat, fault, &m->added);
  }
  std::vector<std::pair<WorkerId, uint32_t>> scaled;
  d.Structs(w.scaled(), "scaled", &scaled, [](const saved::ScaledSeat& seat) {
    return std::pair(WorkerId(seat.seat()), seat.group());
  });
  for (const auto& [seat, group] : scaled) {
    PutOnce(d, "scaled", seat, group, &m->scaled);
  }
  std::vector<uint32_t> expected;
  d.Scalars(w.expected(), "expected", &expected);
  m->expected = SeatsOf(expected);
  std::vector<uint32_t> returning;
  d.Scalars(w.returning(), "returning", &returning);
  m->returning = SeatsOf(returning);
  std::vector<std::pair<WorkerId, LaunchId>> launches;
  d.Structs(w.launches(), "launches", &launches, [](const saved::SeatLaunch& seat) {
    return std::pair(WorkerId(seat.seat()), LaunchId(seat.launch()));
  });
  for (const auto& [seat, launch] : launches) {
    PutOnce(d, "launches", seat, launch, &m->launches);
  }
  if (w.ends() == nullptr || !d.Charge(w.ends()->size() * sizeof(uint32_t), "ends")) {
    return;
  }
  for (const saved::SeatEnd* const end : *w.ends()) {
    PutOnce(
        d,
        "ends",
        WorkerId(end->seat()),
        d.Text(end->description(), kTextBytesMax, "ends"),
        &m->ends);
  }
}

Offset<saved::PlaceRecord> Encode(Fbb& b, const PlaceRecord& m) {
  const auto type = EncodeText(b, m.type);
  const auto zone = EncodeText(b, m.zone);
  const auto why = EncodeText(b, m.why);
  return saved::CreatePlaceRecord(
      b, type, zone, m.failures, m.times_left_out, m.is_program, m.left_out_until.count(), why);
}

void Decode(Decoder& d, const saved::PlaceRecord& w, PlaceRecord* m) {
  m->type = d.Text(w.type(), kTextBytesMax, "type");
  m->zone = d.Text(w.zone(), kTextBytesMax, "zone");
  m->failures = w.failures();
  m->times_left_out = w.times_left_out();
  m->is_program = w.is_program();
  m->left_out_until = Duration(w.left_out_until_ns());
  m->why = d.Text(w.why(), kTextBytesMax, "why");
}

Offset<saved::ShardRecord> Encode(Fbb& b, const ShardRecord& m) {
  const auto host = EncodeText(b, m.host);
  const wire::RestoreOrder restore(m.restore.checkpoint, m.restore.shards);
  return saved::CreateShardRecord(
      b,
      m.is_registered,
      m.is_ready,
      host,
      m.port,
      m.pid,
      m.life,
      &restore,
      m.launch.value,
      m.successor.value);
}

void Decode(Decoder& d, const saved::ShardRecord& w, ShardRecord* m) {
  m->is_registered = w.is_registered();
  m->is_ready = w.is_ready();
  m->host = d.Text(w.host(), kTextBytesMax, "host");
  m->port = w.port();
  m->pid = w.pid();
  m->life = w.life();
  m->launch = LaunchId(w.launch());
  m->successor = LaunchId(w.successor());
  if (d.Present(w.restore(), "restore")) {
    m->restore = {w.restore()->checkpoint(), w.restore()->shards()};
  }
}

}  // namespace ps::proto::codec
