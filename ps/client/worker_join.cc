// How a worker becomes a member, and how one that was fenced becomes another.

#include <algorithm>
#include <utility>

#include "ps/client/worker_core.h"

namespace ps::client {

void WorkerCore::SendJoin(TimePoint now, proto::Outbox* out) {
  join_retry_ = RetryTimer(options_.timing.retry_limit, options_.timing.lease);
  join_retry_.Start(now, &random_);
  coordinator_.Send(options_.join, out);
}

void WorkerCore::OnJoinReply(const proto::JoinReply& reply, TimePoint now, proto::Outbox* out) {
  if (state_ != State::kJoining) {
    return;  // a repetition
  }
  join_retry_.Stop();
  Result<std::optional<proto::Timing>> loading = host_.Load(reply);
  if (loading.ok() && *loading) {
    BecomeMember(reply, **loading, now);
    state_ = State::kLoading;
    log_.Info("loading", {{"worker", worker().value}, {"what", host_.LoadingText()}});
    return;
  }
  Status status =
      loading.ok() ? Configure(reply) : std::move(loading).status().Annotate("set up the model");
  if (!status.ok()) {
    SendRefusal(status, out);
    Exit(status);
    return;
  }
  BecomeMember(reply, session_.settings.timing, now);
  state_ = State::kRunning;
  log_.Info(
      "joined",
      {{"worker", worker().value},
       {"incarnation", incarnation().value},
       {"generation", session_.generation.value},
       {"minibatch", session_.minibatch}});
  links_.Connect(reply.shards);
  Advance(now, out);
}

Status WorkerCore::Configure(const proto::JoinReply& reply) {
  Result<WorkerSettings> settings = host_.Configure(reply);
  if (!settings.ok()) {
    return std::move(settings).status().Annotate("set up the model");
  }
  PS_ASSIGN(
      ChunkLayout layout,
      ChunkLayout::Make(settings->tensor_elements, reply.placement, settings->tensor_encodings));
  session_.settings = std::move(settings).value();
  session_.minibatch = std::max<uint32_t>(reply.minibatch, 1);
  links_.SetLayout(std::move(layout));
  // With overlap one gradient travels while another is computed.
  Status status = host_.Prepare(links_.layout(), session_.settings.overlap ? 2 : 1);
  return status.ok() ? status : std::move(status).Annotate("set up the model");
}

void WorkerCore::BecomeMember(
    const proto::JoinReply& reply, const proto::Timing& timing, TimePoint now) {
  session_.worker = reply.worker;
  session_.incarnation = reply.incarnation;
  session_.generation = reply.generation;
  session_.settings.timing = timing;
  links_.SetPlacement(reply.placement.version);
  leases_.Begin();
  steps_.Begin(session_.settings.steps);
  reports_.Begin();
  goodbye_retry_ = RetryTimer(timing.retry_first, timing.retry_limit);
  times_.Begin(now);
  next_heartbeat_ = now;
}

/// Shards may have moved meanwhile, and the incarnation may have been fenced: the answer to another
/// request tells both.
void WorkerCore::OnLoaded(TimePoint now, proto::Outbox* out) {
  if (state_ != State::kLoading || is_rejoining_) {
    return;  // of an earlier session; the next answer finds all there
  }
  state_ = State::kJoining;
  SendJoin(now, out);
}

void WorkerCore::Rejoin(const std::string& why, proto::Outbox* out) {
  log_.Warning("fenced", {{"incarnation", incarnation().value}, {"reason", why}});
  ++session_.number;
  links_.CloseAll(out);
  coordinator_.Close(out);
  is_rejoining_ = true;
  // A replacement may have the seat by now, and must not be fenced in turn. Who was fenced before
  // an answer came knows only the seat that it asked for, if any.
  proto::JoinRequest& join = options_.join;
  join.is_returning = join.is_returning || join.has_seat || session_.is_member();
  join.seat = session_.is_member() ? session_.worker : join.seat;
  if (!steps_.is_host_busy()) {
    ResetSession();
  }
}

void WorkerCore::ResetSession() {
  is_rejoining_ = false;
  state_ = State::kConnecting;
  session_.incarnation = Incarnation();
  links_.Reset();
  leases_.Reset();
  parameters_.Reset();
  reports_.Reset();
  times_.Reset();
  steps_.Reset();
  host_.ConnectCoordinator(Incarnation());
}

}  // namespace ps::client
