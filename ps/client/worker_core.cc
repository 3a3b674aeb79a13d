// The session: messages, time, leaving. Joining is in worker_join.cc, reports in worker_report.cc.
//
// Invariants:
// - Every request is sent again until it has an answer; every receiver takes repetitions.
// - Nothing of an earlier incarnation survives Rejoin: Session::number marks the arithmetic still
//   under way.
// - The core does not wait for a lost coordinator for ever, though its connection may look open:
//   proto::CoordinatorSilence.

#include "ps/client/worker_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace ps::client {
namespace {

std::string Seconds1(Duration d) {
  return fmt::format("{:.1f} s", Seconds(d));
}

}  // namespace

WorkerCore::WorkerCore(Options options, WorkerHost* host, const Logger* log)
    : options_(std::move(options)),
      host_(*host),
      log_(*log),
      random_(options_.seed),
      coordinator_(log_),
      links_(session_, host_, random_, log_),
      leases_(session_, coordinator_, random_),
      parameters_(session_, host_, links_),
      reports_(session_, coordinator_, random_),
      steps_(session_, host_, links_, leases_, parameters_, reports_, times_, log_) {
  session_.settings.timing = options_.timing;
}

void WorkerCore::Start(TimePoint now) {
  coordinator_.silence().Heard(now);
  state_ = State::kConnecting;
  host_.ConnectCoordinator(Incarnation());
}

void WorkerCore::OnCoordinatorConnected(
    proto::PeerId peer, proto::Term term, TimePoint now, proto::Outbox* out) {
  if (!coordinator_.OnConnected(peer, term, now, out) || state_ == State::kExited ||
      is_rejoining_) {
    return;
  }
  if (!session_.is_member()) {
    state_ = State::kJoining;
    SendJoin(now, out);
    return;
  }
  // A new connection after a lost one: unanswered requests are sent again at the next tick.
  leases_.Hurry(now);
  reports_.Hurry(now);
  for (RetryTimer* retry : {&join_retry_, &goodbye_retry_}) {
    if (retry->is_armed()) {
      retry->DueAt(now);
    }
  }
  next_heartbeat_ = now;
  OnTick(now, out);
}

void WorkerCore::OnShardConnected(
    ShardId shard, proto::PeerId peer, TimePoint now, proto::Outbox* out) {
  if (state_ == State::kExited || !links_.OnConnected(shard, peer, now, out)) {
    out->Close(peer);
    return;
  }
  Advance(now, out);
}

void WorkerCore::OnPeerClosed(proto::PeerId peer, TimePoint now) {
  if (peer == coordinator_.peer()) {
    coordinator_.OnClosed(now);
  } else if (ShardLink* link = links_.Of(peer); link != nullptr) {
    link->OnDisconnected();
  }
}

void WorkerCore::OnMessage(
    proto::PeerId from,
    uint64_t request_id,
    proto::Message message,
    TimePoint now,
    proto::Outbox* out) {
  if (state_ == State::kExited || is_rejoining_) {
    return;
  }
  const bool is_coordinator = from == coordinator_.peer();
  if (is_coordinator) {
    coordinator_.silence().Heard(now);
  }
  ShardLink* const link = links_.Of(from);
  if (link == nullptr && !is_coordinator) {
    return;  // from a connection that was given up
  }
  if (const auto* refusal = std::get_if<proto::Refusal>(&message)) {
    OnRefusal(from, *refusal, now, out);
  } else if (link != nullptr) {
    OnShardMessage(link, request_id, message, now, out);
  } else {
    OnCoordinatorMessage(message, now, out);
  }
  Advance(now, out);
}

void WorkerCore::OnShardMessage(
    ShardLink* link,
    uint64_t request_id,
    const proto::Message& message,
    TimePoint now,
    proto::Outbox* out) {
  if (const auto* push = std::get_if<proto::PushReply>(&message)) {
    link->OnPushReply(request_id, *push, now, out);
  } else if (const auto* pull = std::get_if<proto::PullReply>(&message)) {
    auto fresh = link->OnPullReply(request_id, *pull, now);
    if (fresh.ok()) {
      parameters_.OnValues(std::move(fresh).value(), steps_.is_host_busy());
    } else {
      Exit(fresh.status());
    }
  }
  if (!links_.IsUpToDate(*link)) {
    next_heartbeat_ = now;  // its answer says where the chunks are
  }
}

void WorkerCore::OnCoordinatorMessage(
    const proto::Message& message, TimePoint now, proto::Outbox* out) {
  if (const auto* join = std::get_if<proto::JoinReply>(&message)) {
    OnJoinReply(*join, now, out);
  } else if (const auto* grant = std::get_if<proto::LeaseGrant>(&message)) {
    OnLeaseGrant(*grant, now);
  } else if (const auto* ack = std::get_if<proto::StepAck>(&message)) {
    reports_.OnStepAck(*ack);
  } else if (const auto* cut = std::get_if<proto::LeaseCut>(&message)) {
    leases_.OnCut(*cut);
  } else if (const auto* evaluated = std::get_if<proto::EvaluateAck>(&message)) {
    reports_.OnEvaluateAck(*evaluated);
  } else if (const auto* beat = std::get_if<proto::HeartbeatReply>(&message)) {
    session_.generation = std::max(session_.generation, beat->generation);
  } else if (const auto* bye = std::get_if<proto::GoodbyeReply>(&message)) {
    if (state_ == State::kLeaving && bye->incarnation == session_.incarnation) {
      Exit(Status::Revoked(leave_reason_));
    }
  } else if (const auto* addresses = std::get_if<proto::ShardAddresses>(&message)) {
    if (!is_beginning()) {  // else of an earlier session, or told again after loading
      ExitOnError(links_.OnAddresses(*addresses, now, out));
    }
  } else if (const auto* drain = std::get_if<proto::Drain>(&message)) {
    OnNotice(now + std::chrono::milliseconds(drain->grace_ms), drain->reason, now, out);
  } else if (const auto* shutdown = std::get_if<proto::Shutdown>(&message)) {
    OnShutdown(*shutdown, now, out);
  }
}

void WorkerCore::OnLeaseGrant(const proto::LeaseGrant& grant, TimePoint now) {
  const TimePoint asked_at = leases_.asked_at();
  if (!is_running() || !leases_.Take(grant)) {
    return;  // a repetition, or too late
  }
  // The values held may be old by now, and under ssp this worker may have been inactive meanwhile.
  const bool has_waited = !steps_.is_host_busy() && now - asked_at > session_.settings.timing.tick;
  if (grant.mode == proto::Mode::kSsp || (parameters_.is_overlapping() && has_waited)) {
    parameters_.RequirePull();
  }
}

void WorkerCore::Advance(TimePoint now, proto::Outbox* out) {
  if (is_rejoining_ || (state_ != State::kRunning && state_ != State::kDraining)) {
    times_.Enter(WaitingFor::kNothing, now);
    return;
  }
  ExitOnError(steps_.Advance(is_running(), now, out));
  AdvanceLease(now, out);
  AdvanceDrain(now, out);
  if (const auto ahead = is_running() ? leases_.NewsAhead() : std::nullopt; ahead) {
    host_.OnSamplesAhead(*ahead);
  }
  reports_.Settle();
  times_.Enter(WhatIsAwaited(), now);
}

/// Without overlap a worker asks right behind its report: a coordinator which finds nothing for it
/// may call it idle, and else answers both in one turn. With overlap it asks while the last
/// minibatch is computed.
void WorkerCore::AdvanceLease(TimePoint now, proto::Outbox* out) {
  const bool may_ask = !steps_.is_busy() || parameters_.is_overlapping();
  if (is_running() && leases_.IsOneWanted() && !leases_.has_work() && may_ask) {
    leases_.Ask(now, out);
  }
}

void WorkerCore::AdvanceDrain(TimePoint now, proto::Outbox* out) {
  if (state_ != State::kDraining || steps_.HasStepToFinish() || reports_.has_steps()) {
    return;
  }
  state_ = State::kLeaving;
  leases_.Stop();
  goodbye_retry_.Start(now, &random_);
  SendGoodbye(now, out);
}

void WorkerCore::OnLocalStep(uint64_t session, uint32_t samples) {
  if (session == session_.number && !is_rejoining_) {
    times_.OnLocalStep(samples);
  }
}

void WorkerCore::OnTensorReady(
    uint64_t session, uint32_t tensor, TimePoint now, proto::Outbox* out) {
  if (session == session_.number && !is_rejoining_) {
    steps_.OnTensorReady(tensor, now, out);
  }
}

bool WorkerCore::TakeHostBack() {
  steps_.OnHostFree();
  if (state_ != State::kExited && is_rejoining_) {
    ResetSession();
    return false;
  }
  return state_ != State::kExited;
}

void WorkerCore::OnComputed(
    uint64_t session, const ComputeResult& result, TimePoint now, proto::Outbox* out) {
  if (TakeHostBack()) {
    ExitOnError(steps_.OnComputed(result, session != session_.number, is_running(), now, out));
    Advance(now, out);
  }
}

void WorkerCore::OnEvaluated(
    uint64_t session, const ComputeResult& result, TimePoint now, proto::Outbox* out) {
  if (TakeHostBack()) {
    steps_.OnEvaluated(result, session != session_.number, is_running(), now, out);
    Advance(now, out);
  }
}

void WorkerCore::OnRefusal(
    proto::PeerId from, const proto::Refusal& refusal, TimePoint now, proto::Outbox* out) {
  switch (refusal.code) {
    case StatusCode::kUnavailable:
    case StatusCode::kOverloaded:
    case StatusCode::kDeadlineExceeded:
      if (ShardLink* link = links_.Of(from); link != nullptr) {
        link->OnRetryLater(refusal.retry_after_ms, now);
      }
      return;  // the coordinator's are repeated by their own timers
    case StatusCode::kStale:
      if (is_leaving()) {
        Exit(Status::Revoked(fmt::format("{} ({})", leave_reason_, refusal.message)));
      } else {
        Rejoin(refusal.message, out);
      }
      return;
    default:
      Exit(Status(refusal.code, refusal.message)
               .Annotate(
                   from == coordinator_.peer() ? "refused by the coordinator"
                                               : "refused by a shard"));
  }
}

void WorkerCore::OnShutdown(const proto::Shutdown& shutdown, TimePoint now, proto::Outbox* out) {
  log_.Info("shutdown", {{"reason", shutdown.reason}});
  if (session_.is_member()) {
    SendHeartbeat(now, out);  // what was done since the last one belongs into the summary
  }
  Exit(Status::Ok());
}

void WorkerCore::OnNotice(
    TimePoint deadline, const std::string& reason, TimePoint now, proto::Outbox* out) {
  if (state_ == State::kExited) {
    return;
  }
  if (is_leaving()) {
    if (deadline < deadline_ && state_ == State::kDraining) {
      steps_.HandOverWithLast(deadline, now);
    }
    deadline_ = std::min(deadline_, deadline);
    return;
  }
  log_.Info("notice", {{"reason", reason}, {"grace", Seconds1(deadline - now)}});
  deadline_ = deadline;
  leave_reason_ = reason;
  if (is_beginning() && !session_.is_member()) {
    Exit(Status::Revoked(reason));  // no member yet
    return;
  }
  state_ = State::kDraining;
  steps_.ShortenStepThatIsLate(deadline, now);
  steps_.HandOverWithLast(deadline, now);
  Advance(now, out);
}

void WorkerCore::OnDeviceLost(const Status& why, TimePoint now, proto::Outbox* out) {
  steps_.OnHostFree();
  if (is_rejoining_ || is_beginning()) {
    Exit(Status::Revoked(std::string(why.message())));  // holds nothing
    return;
  }
  steps_.DropTask();
  // As long as others wait for somebody who is silent.
  OnNotice(now + session_.settings.timing.detect, std::string(why.message()), now, out);
  Advance(now, out);
}

void WorkerCore::OnComputeFailed(const Status& why, proto::Outbox* out) {
  if (session_.is_member() && !is_rejoining_) {
    SendRefusal(why, out);
  }
  Exit(why);
}

/// A reason that the coordinator knows before the process is over, and word by word.
void WorkerCore::SendRefusal(const Status& why, proto::Outbox* out) {
  proto::Refusal refusal;
  refusal.code = why.code();
  refusal.message = std::string(why.message());
  coordinator_.Send(std::move(refusal), out);
}

void WorkerCore::Exit(const Status& status) {
  if (state_ == State::kExited) {
    return;
  }
  state_ = State::kExited;
  ++session_.number;
  host_.Exit(status);
}

void WorkerCore::ExitOnError(const Status& status) {
  if (!status.ok()) {
    Exit(status);
  }
}

void WorkerCore::OnTick(TimePoint now, proto::Outbox* out) {
  if (state_ == State::kExited) {
    return;
  }
  const proto::Timing& timing = session_.settings.timing;
  const Duration pause = coordinator_.silence().Tick(now, timing.heartbeat * 2);
  if (pause > Duration()) {
    log_.Warning("worker_stalled", {{"seconds", Seconds(pause)}});
  }
  if (is_leaving() && now >= deadline_) {
    Exit(Status::Revoked(fmt::format("{} (grace period over)", leave_reason_)));
    return;
  }
  const bool is_gone = !coordinator_.is_connected();
  if (coordinator_.silence().IsTooLong(now, !is_gone, timing)) {
    Exit(Status::Unavailable(fmt::format(
        "{} for {}; the run is over or the network is down",
        is_gone ? "no coordinator" : "a silent coordinator",
        Seconds1(coordinator_.silence().Of(now)))));
    return;
  }
  if (is_rejoining_) {
    return;
  }
  if (!is_gone) {
    RetryCoordinator(now, out);
  }
  links_.OnTick(now, out);
  Advance(now, out);
}

}  // namespace ps::client
