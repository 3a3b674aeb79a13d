#pragma once

#include "ps/proto/codec/field_list.h"
#include "ps/proto/codec/saved_views.h"
#include "ps/proto/limits.h"
#include "ps/proto/state/job_state.h"

// The fields of what a job's saved state says of those who take part: members, seats, shards.
// Private to the codec.

namespace ps::proto {

// Entries of maps as they are saved: the key, then the value.

struct Answer {
  ShardId shard;
  MembershipAck::Resolved resolved;
};

struct Acknowledged {
  ShardId shard;
  Generation generation;
};

struct AddedSeat {
  WorkerId seat;
  uint32_t fault = 0;
};

struct ScaledSeat {
  WorkerId seat;
  uint32_t group = 0;
};

struct SeatEnd {
  WorkerId seat;
  std::string description;
};

struct SeatLaunch {
  WorkerId seat;
  LaunchId launch;
};

struct SeatLosses {
  WorkerId seat;
  FruitlessLosses losses;
};

template <MaybeConst<MemberRecord> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"joined">(m.joined),
      Field<"seat">(m.seat),
      Text<"host", kTextBytesMax>(m.host),
      Field<"pid">(m.pid),
      Field<"minibatch">(m.minibatch),
      Field<"slowdown">(m.slowdown),
      Field<"threads">(m.threads),
      Field<"is_admitted">(m.is_admitted),
      Field<"is_heard">(m.is_heard),
      Field<"is_draining">(m.is_draining),
      Field<"is_notified">(m.is_notified),
      Field<"is_active">(m.is_active),
      Field<"has_asked">(m.has_asked),
      Field<"activated">(m.activated),
      Field<"last_grant">(m.last_grant),
      Field<"reported">(m.reported),
      Field<"samples_counted">(m.samples_counted),
      Field<"step_seconds">(m.step_seconds),
      Field<"stats">(m.stats),
      Field<"steps_late">(m.stats.steps_late),
      Field<"is_released">(m.is_released),
      Text<"device", kDeviceBytesMax>(m.device),
      Field<"lives_missed">(m.lives_missed),
      Field<"is_at_risk">(m.is_at_risk),
      Field<"launch">(m.launch),
      Field<"began_ns">(m.began),
      Optional<"times">(m.stats.times),
      Text<"zone", kTextBytesMax>(m.zone),
      Field<"pushed_counted">(m.pushed_counted),
      Field<"pulled_counted">(m.pulled_counted));
}

template <MaybeConst<Answer> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"shard">(m.shard), Field<"resolved">(m.resolved));
}

template <MaybeConst<DepartureRecord> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"member">(m.member),
      Field<"kind">(m.kind),
      Text<"reason", kTextBytesMax>(m.reason),
      Field<"has_said_goodbye">(m.has_said_goodbye),
      Entries<"answers", Answer>(m.answers),
      Field<"is_resolved">(m.is_resolved),
      Field<"kept_for_round">(m.kept_for_round),
      Field<"generation">(m.generation));
}

template <MaybeConst<GoneWorker> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"member">(m.member), Field<"kind">(m.kind), Text<"reason", kTextBytesMax>(m.reason));
}

template <MaybeConst<Acknowledged> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"shard">(m.shard), Field<"generation">(m.generation));
}

template <MaybeConst<MembershipState> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"generation">(m.generation),
      Field<"incarnation_max">(m.incarnation_max),
      Values<"members">(m.members, [](const MemberRecord& r) { return r.incarnation; }),
      Values<"departures">(
          m.departures, [](const DepartureRecord& r) { return r.member.incarnation; }),
      Entries<"acknowledged", Acknowledged>(m.acknowledged),
      Field<"gone">(m.gone),
      Field<"gone_before">(m.gone_before));
}

template <MaybeConst<AddedSeat> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"seat">(m.seat), Field<"fault">(m.fault));
}

template <MaybeConst<ScaledSeat> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"seat">(m.seat), Field<"group">(m.group));
}

template <MaybeConst<SeatEnd> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"seat">(m.seat), Text<"description", kTextBytesMax>(m.description));
}

template <MaybeConst<SeatLaunch> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"launch">(m.launch), Field<"seat">(m.seat));
}

template <MaybeConst<SeatLosses> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"seat">(m.seat),
      Field<"times">(m.losses.times),
      Text<"why", kTextBytesMax>(m.losses.why));
}

template <MaybeConst<SeatsState> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"next">(m.next),
      Entries<"added", AddedSeat>(m.added),
      Field<"expected">(m.expected),
      Entries<"ends", SeatEnd>(m.ends),
      Entries<"scaled", ScaledSeat>(m.scaled),
      Field<"returning">(m.returning),
      Entries<"launches", SeatLaunch>(m.launches),
      Entries<"fruitless", SeatLosses>(m.fruitless));
}

template <MaybeConst<ShardRecord> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"is_registered">(m.is_registered),
      Field<"is_ready">(m.is_ready),
      Text<"host", kTextBytesMax>(m.host),
      Field<"port">(m.port),
      Field<"pid">(m.pid),
      Field<"life">(m.life),
      Field<"restore">(m.restore),
      Field<"launch">(m.launch),
      Field<"successor">(m.successor),
      Field<"restarts">(m.restarts),
      Field<"start_due_ns">(m.start_due));
}

}  // namespace ps::proto
