// Who takes part: a worker joins when every shard has acknowledged a membership that lists it; only
// then does it learn its incarnation.

#include <string>
#include <utility>

#include "ps/coordinator/coordinator_core.h"

namespace ps::coordinator {
namespace {

constexpr uint32_t kMinibatchMax = 1U << 24;
constexpr float kSlowdownMax = 1e4F;

bool IsSane(const proto::JoinRequest& request) {
  const bool is_seat_ok = !request.has_seat || request.seat.value < kSeatsMax;
  const bool is_slowdown_ok =
      request.slowdown == 0 || (request.slowdown >= 1 && request.slowdown <= kSlowdownMax);
  return is_seat_ok && is_slowdown_ok && request.minibatch <= kMinibatchMax;
}

}  // namespace

/// A member's message came on a connection that is not its own: one that it asked for under an
/// earlier incarnation, say. It is to come back under the present one, which stays a member.
void CoordinatorCore::RefuseConnection(const Call& call, Incarnation incarnation) {
  Refuse(
      call,
      StatusCode::kUnavailable,
      "this connection is not incarnation " + std::to_string(incarnation.value) +
          "'s; connect again as that one");
  ClosePeer(call.from, call);
}

/// The member that `call` comes from, or null: refused as stale when it is fenced, or dropped when
/// it came on a connection that the member has given up.
Member* CoordinatorCore::MemberOf(const Call& call, Incarnation incarnation) {
  if (!HasRole(call, proto::Role::kWorker)) {
    return nullptr;
  }
  Member* const member = membership_.Find(incarnation);
  if (member == nullptr || !member->is_admitted) {
    Refuse(
        call,
        StatusCode::kStale,
        "incarnation " + std::to_string(incarnation.value) + " takes no part (any more)");
    return nullptr;
  }
  if (peers_.at(call.from).incarnation != incarnation) {
    RefuseConnection(call, incarnation);
    return nullptr;
  }
  if (member->peer != call.from) {
    return nullptr;
  }
  member->last_heard = call.now;
  member->is_heard = true;
  return member;
}

void CoordinatorCore::On(const Call& call, const proto::JoinRequest& message) {
  if (!HasRole(call, proto::Role::kWorker)) {
    return;
  }
  if (!IsSane(message)) {
    Refuse(
        call,
        StatusCode::kInvalidArgument,
        "a seat is below " + std::to_string(kSeatsMax) +
            ", a slowdown 0 or at least 1, and a "
            "minibatch at most " +
            std::to_string(kMinibatchMax));
    return;
  }
  const Incarnation incarnation = peers_.at(call.from).incarnation;
  if (incarnation == Incarnation()) {
    pending_joins_[call.from] = {message, call.request_id, call.now};
    return;
  }
  Member* const member = membership_.Find(incarnation);
  if (member == nullptr) {
    Refuse(call, StatusCode::kStale, "this connection's worker is fenced; connect again to join");
  } else if (member->peer == call.from) {
    member->join_request_id = call.request_id;
    member->last_heard = call.now;
    if (member->is_admitted) {
      SendJoinReply(*member, call);
    }
  }
}

void CoordinatorCore::AdmitPending(const Call& call) {
  if (phase_ == Phase::kStopping || !shards_.are_all_ready() || pending_joins_.empty()) {
    return;
  }
  if (phase_ == Phase::kStarting && seats_.initial() > MembersMax()) {
    Fail(
        Status::InvalidArgument(
            "under bsp the shards have room for the gradients of " + std::to_string(MembersMax()) +
            " workers, and the job has " + std::to_string(seats_.initial()) +
            "; raise servers.queue_mib or use more shards"),
        call);
    return;
  }
  for (const auto& [peer, join] : std::exchange(pending_joins_, {})) {
    Admit({peer, join.request_id, call.now, call.out}, join.request);
  }
}

/// The seat asked for, or the lowest one that nobody holds or is expected in. A holder of the seat
/// that was asked for is fenced: a launcher gives a seat to one process at a time, so it is gone.
std::optional<WorkerId> CoordinatorCore::ChooseSeat(
    const proto::JoinRequest& request, const Call& call) {
  if (request.has_seat) {
    seats_.Open(request.seat);
    if (const Member* const holder = membership_.FindSeat(request.seat); holder != nullptr) {
      if (holder->is_heard) {
        RemoveLost(holder->incarnation, "its seat was taken by a new process", call);
      } else {
        RemoveMember(holder->incarnation, LeaveKind::kLeft, "joined anew", call);
      }
    }
    return request.seat;
  }
  // One that lost its connection before the answer came asks again, as the same process.
  for (const auto& [incarnation, member] : membership_.members()) {
    const bool is_same = request.pid != 0 && member.pid == request.pid &&
                         member.host == request.host && member.peer == proto::PeerId();
    if (is_same) {
      const WorkerId seat = member.seat;
      RemoveMember(incarnation, LeaveKind::kLeft, "joined anew", call);
      return seat;
    }
  }
  for (uint32_t i = 0; i < seats_.size(); ++i) {
    if (membership_.FindSeat(WorkerId(i)) == nullptr && !seats_.IsExpected(WorkerId(i))) {
      return WorkerId(i);
    }
  }
  if (seats_.size() == kSeatsMax) {
    return std::nullopt;
  }
  const WorkerId seat(seats_.size());
  seats_.Open(seat);
  return seat;
}

uint64_t CoordinatorCore::MembersMax() const {
  const uint64_t queue_bytes = uint64_t{options_.config.servers.queue_mib} << 20U;
  return is_bsp() && shards_.largest_bytes() > 0 ? queue_bytes / shards_.largest_bytes()
                                                 : kSeatsMax;
}

void CoordinatorCore::Admit(const Call& call, const proto::JoinRequest& request) {
  const std::optional<WorkerId> seat = ChooseSeat(request, call);
  if (!seat) {
    Refuse(call, StatusCode::kOverloaded, "all " + std::to_string(kSeatsMax) + " seats are taken");
    return;
  }
  if (membership_.members().size() >= MembersMax()) {
    log_->Warning("no_room_for_worker", {{"members", membership_.members().size()}});
    Refuse(
        call,
        StatusCode::kOverloaded,
        "the shards have room for the gradients of " + std::to_string(MembersMax()) +
            " workers; raise servers.queue_mib or use more shards");
    return;
  }
  Member& member = membership_.Add(*seat);
  const proto::WorkerGroup& group = seats_.GroupOf(*seat);
  member.host = request.host;
  member.pid = request.pid;
  member.minibatch = request.minibatch == 0 ? group.minibatch : request.minibatch;
  member.slowdown = request.slowdown == 0 ? group.slowdown : request.slowdown;
  member.threads = group.threads;
  member.peer = call.from;
  member.join_request_id = call.request_id;
  member.since = call.now;
  member.last_heard = call.now;
  member.last_heartbeat = call.now;
  member.last_progress = call.now;
  // Under ssp it counts for the bound when it gets its first lease: until then it is loading data.
  member.is_active = !is_ssp();
  peers_.at(call.from).incarnation = member.incarnation;
  ++counters_.joins;
  log_->Info(
      "worker_joins",
      {{"worker", seat->value},
       {"incarnation", member.incarnation.value},
       {"host", member.host},
       {"pid", member.pid},
       {"generation", membership_.generation().value}});
}

void CoordinatorCore::AnswerJoins(const Call& call) {
  for (auto& [incarnation, member] : membership_.members()) {
    if (!member.is_admitted && membership_.IsAcknowledged(member.joined)) {
      member.is_admitted = true;
      member.last_heard = call.now;
      SendJoinReply(member, call);
    }
  }
}

void CoordinatorCore::SendJoinReply(const Member& member, const Call& call) {
  proto::JoinReply reply;
  reply.worker = member.seat;
  reply.incarnation = member.incarnation;
  reply.generation = member.joined;
  reply.config_json = config_json_;
  reply.shards = shards_.Addresses();
  reply.placement = placement_;
  reply.minibatch = member.minibatch;
  reply.slowdown = member.slowdown;
  reply.threads = member.threads;
  call.out->Send(member.peer, member.join_request_id, std::move(reply));
}

}  // namespace ps::coordinator
