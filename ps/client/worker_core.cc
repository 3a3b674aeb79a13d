// The session: joining, messages, leaving. Steps are in worker_step.cc, reports in
// worker_report.cc.
//
// Invariants:
// - Every request is sent again until it has an answer; every receiver takes repetitions.
// - Nothing of an earlier incarnation survives Rejoin: `session_` marks the arithmetic still under
//   way.
// - The core does not wait for a lost coordinator for ever, though its connection may look open:
//   proto::CoordinatorSilence.

#include "ps/client/worker_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

namespace ps::client {
namespace {

std::string Seconds1(Duration d) {
  return fmt::format("{:.1f} s", Seconds(d));
}

}  // namespace

WorkerCore::WorkerCore(Options options, WorkerHost* host, const Logger* log)
    : options_(std::move(options)), host_(host), log_(log), random_(options_.seed) {
  settings_.timing = options_.timing;
}

void WorkerCore::Start(TimePoint now) {
  silence_.Heard(now);
  state_ = State::kConnecting;
  host_->ConnectCoordinator(Incarnation());
}

ShardLink* WorkerCore::LinkOf(proto::PeerId peer) {
  for (auto& [shard, link] : links_) {
    if (link->peer() == peer) {
      return link.get();
    }
  }
  return nullptr;
}

void WorkerCore::OnCoordinatorConnected(
    proto::PeerId peer, proto::Term term, TimePoint now, proto::Outbox* out) {
  if (term < term_) {
    log_->Error("coordinator_of_earlier_term", {{"term", term}, {"known", term_}});
    out->Close(peer);
    return;
  }
  term_ = term;
  coordinator_ = peer;
  silence_.Heard(now);
  if (state_ == State::kExited || is_rejoining_) {
    return;
  }
  if (incarnation_ == Incarnation()) {
    state_ = State::kJoining;
    SendJoin(now, out);
    return;
  }
  // A new connection after a lost one: unanswered requests are sent again at the next tick.
  for (RetryTimer* retry : {&join_retry_, &lease_retry_, &report_retry_, &goodbye_retry_}) {
    if (retry->is_armed()) {
      retry->DueAt(now);
    }
  }
  next_heartbeat_ = now;
  OnTick(now, out);
}

void WorkerCore::OnShardConnected(
    ShardId shard, proto::PeerId peer, TimePoint now, proto::Outbox* out) {
  const auto it = links_.find(shard);
  if (it == links_.end() || state_ == State::kExited) {
    out->Close(peer);
    return;
  }
  it->second->OnConnected(peer, now, out);
  Advance(now, out);
}

void WorkerCore::OnPeerClosed(proto::PeerId peer, TimePoint now) {
  if (peer == coordinator_) {
    coordinator_ = proto::PeerId();
    silence_.Heard(now);
  } else if (ShardLink* link = LinkOf(peer); link != nullptr) {
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
  if (from == coordinator_) {
    silence_.Heard(now);
  }
  ShardLink* const link = LinkOf(from);
  if (link == nullptr && from != coordinator_) {
    return;  // from a connection that was given up
  }
  if (const auto* refusal = std::get_if<proto::Refusal>(&message)) {
    OnRefusal(from, *refusal, now, out);
  } else if (link != nullptr) {
    if (const auto* push = std::get_if<proto::PushReply>(&message)) {
      link->OnPushReply(request_id, *push, now, out);
    } else if (const auto* pull = std::get_if<proto::PullReply>(&message)) {
      OnPullReply(request_id, link, *pull, now);
    }
    if (!IsUpToDate(*link)) {
      next_heartbeat_ = now;  // its answer says where the chunks are
    }
  } else {
    if (const auto* join = std::get_if<proto::JoinReply>(&message)) {
      OnJoinReply(*join, now, out);
    } else if (const auto* grant = std::get_if<proto::LeaseGrant>(&message)) {
      OnLeaseGrant(*grant, now);
    } else if (const auto* ack = std::get_if<proto::StepAck>(&message)) {
      OnStepAck(*ack);
    } else if (const auto* evaluated = std::get_if<proto::EvaluateAck>(&message)) {
      if (evaluation_ && evaluation_->lease == evaluated->lease) {
        evaluation_.reset();
      }
    } else if (const auto* beat = std::get_if<proto::HeartbeatReply>(&message)) {
      generation_ = std::max(generation_, beat->generation);
    } else if (const auto* bye = std::get_if<proto::GoodbyeReply>(&message)) {
      if (state_ == State::kLeaving && bye->incarnation == incarnation_) {
        Exit(Status::Revoked(leave_reason_));
      }
    } else if (const auto* addresses = std::get_if<proto::ShardAddresses>(&message)) {
      OnShardAddresses(*addresses, now, out);
    } else if (const auto* drain = std::get_if<proto::Drain>(&message)) {
      OnNotice(now + std::chrono::milliseconds(drain->grace_ms), drain->reason, now, out);
    } else if (const auto* shutdown = std::get_if<proto::Shutdown>(&message)) {
      OnShutdown(*shutdown, now, out);
    }
  }
  Advance(now, out);
}

void WorkerCore::RefuseToJoin(const Status& why, proto::Outbox* out) {
  proto::Refusal refusal;
  refusal.code = why.code();
  refusal.message = std::string(why.message());
  out->Send(coordinator_, ++next_request_id_, std::move(refusal));
  Exit(why);
}

void WorkerCore::OnJoinReply(const proto::JoinReply& reply, TimePoint now, proto::Outbox* out) {
  if (state_ != State::kJoining) {
    return;  // a repetition
  }
  join_retry_.Stop();
  const Result<std::optional<proto::Timing>> loading = host_->Load(reply);
  if (!loading.ok()) {
    RefuseToJoin(Status(loading.status()).Annotate("set up the model"), out);
    return;
  }
  if (*loading) {
    BecomeMember(reply, **loading, now);
    state_ = State::kLoading;
    log_->Info("loading", {{"worker", worker_.value}, {"what", host_->LoadingText()}});
    return;
  }
  Result<WorkerSettings> settings = host_->Configure(reply);
  if (!settings.ok()) {
    RefuseToJoin(std::move(settings).status().Annotate("set up the model"), out);
    return;
  }
  Result<ChunkLayout> layout =
      ChunkLayout::Make(settings->tensor_elements, reply.placement, settings->tensor_dtypes);
  if (!layout.ok()) {
    RefuseToJoin(layout.status(), out);
    return;
  }
  settings_ = std::move(settings).value();
  layout_ = std::move(layout).value();
  minibatch_ = std::max<uint32_t>(reply.minibatch, 1);
  // With overlap one gradient travels while another is computed.
  if (Status status = host_->Prepare(layout_, settings_.overlap ? 2 : 1); !status.ok()) {
    RefuseToJoin(std::move(status).Annotate("set up the model"), out);
    return;
  }
  BecomeMember(reply, settings_.timing, now);
  state_ = State::kRunning;
  for (const proto::ShardAddress& address : reply.shards) {
    AddLink(address);
  }
  log_->Info(
      "joined",
      {{"worker", worker_.value},
       {"incarnation", incarnation_.value},
       {"generation", generation_.value},
       {"minibatch", minibatch_}});
  for (const proto::ShardAddress& address : reply.shards) {
    addresses_[address.shard] = address;
    host_->ConnectShard(address, incarnation_);
  }
  Advance(now, out);
}

void WorkerCore::BecomeMember(
    const proto::JoinReply& reply, const proto::Timing& timing, TimePoint now) {
  worker_ = reply.worker;
  incarnation_ = reply.incarnation;
  generation_ = reply.generation;
  placement_ = reply.placement.version;
  settings_.timing = timing;
  lease_retry_ = RetryTimer(timing.retry_first, timing.retry_limit);
  report_retry_ = lease_retry_;
  goodbye_retry_ = lease_retry_;
  waiting_since_ = now;
  next_heartbeat_ = now;
  rate_since_ = now;
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

/// With the chunks that are the shard's by the layout.
void WorkerCore::AddLink(const proto::ShardAddress& address) {
  std::unique_ptr<ShardLink>& link = links_[address.shard];
  link = std::make_unique<ShardLink>(
      address.shard,
      ShardLink::Identity{worker_, incarnation_},
      &layout_,
      settings_.frame_bytes,
      settings_.timing,
      &random_);
  link->SetPlacement(placement_);
}

/// A shard that came back as another process is elsewhere. What it had not answered is sent again.
void WorkerCore::OnShardAddresses(
    const proto::ShardAddresses& message, TimePoint now, proto::Outbox* out) {
  if (is_beginning()) {
    return;  // of an earlier session, or told again by the answer that comes after loading
  }
  if (message.version > placement_ && message.base <= placement_) {
    TakePlacement(message, now, out);
  }
  for (const proto::ShardAddress& address : message.shards) {
    const auto known = addresses_.find(address.shard);
    if (known == addresses_.end() ||
        (known->second.host == address.host && known->second.port == address.port)) {
      continue;
    }
    known->second = address;
    ShardLink& link = *links_.at(address.shard);
    log_->Info(
        "shard_moved",
        {{"shard", address.shard.value}, {"host", address.host}, {"port", address.port}});
    if (link.peer() != proto::PeerId()) {
      out->Close(link.peer());
      link.OnDisconnected();
    }
    host_->ConnectShard(address, incarnation_);
  }
}

/// Chunks have moved: pushes and pulls that are under way go on where they are now.
void WorkerCore::TakePlacement(
    const proto::ShardAddresses& message, TimePoint now, proto::Outbox* out) {
  const uint64_t known = placement_;
  placement_ = message.version;
  for (const proto::ShardAddress& address : message.shards) {
    if (links_.contains(address.shard)) {
      continue;
    }
    AddLink(address);
    if (travelling_) {
      links_.at(address.shard)->BeginPush(push_job_);
    }
    addresses_[address.shard] = address;
    host_->ConnectShard(address, incarnation_);
  }
  std::set<ShardId> changed;
  for (const proto::ChunkPlace& place : message.places) {
    const ChunkLayout::Chunk* const chunk = layout_.Find(place.key);
    const auto to = links_.find(place.shard);
    if (chunk == nullptr || to == links_.end()) {
      Exit(Status::InvalidArgument(fmt::format(
          "chunk {} is said to be on shard {}; there is no such chunk or no such shard",
          place.key.value,
          place.shard.value)));
      return;
    }
    // After more than one move it may have been elsewhere when its shard answered.
    const bool may_have_left =
        message.version > known + 1 && links_.at(chunk->shard)->seen_placement() > known;
    if (chunk->shard == place.shard && !may_have_left) {
      continue;
    }
    changed.insert(chunk->shard);
    changed.insert(place.shard);
    ShardLink::Leaving leaving = links_.at(chunk->shard)->Remove(place.key, known);
    leaving.chunk.shard = place.shard;
    to->second->Add(leaving, travelling_.has_value());
    layout_.Move(place.key, place.shard);
  }
  for (const auto& [shard, link] : links_) {
    if (changed.contains(shard)) {
      link->AfterMove(placement_, now, out);
    } else {
      link->SetPlacement(placement_);
    }
  }
  ForgetShards(message, out);
  log_->Info("chunks_moved", {{"placement", placement_}, {"chunks", message.places.size()}});
}

/// Those that the message does not name and that have no chunks.
void WorkerCore::ForgetShards(const proto::ShardAddresses& message, proto::Outbox* out) {
  for (auto it = links_.begin(); it != links_.end();) {
    const ShardId shard = it->first;
    const ShardLink& link = *it->second;
    if (link.has_chunks() ||
        std::ranges::find(message.shards, shard, &proto::ShardAddress::shard) !=
            message.shards.end()) {
      ++it;
      continue;
    }
    host_->ForgetShard(shard);
    if (link.peer() != proto::PeerId()) {
      out->Close(link.peer());
    }
    addresses_.erase(shard);
    it = links_.erase(it);
  }
}

void WorkerCore::OnRefusal(
    proto::PeerId from, const proto::Refusal& refusal, TimePoint now, proto::Outbox* out) {
  switch (refusal.code) {
    case StatusCode::kUnavailable:
    case StatusCode::kOverloaded:
    case StatusCode::kDeadlineExceeded:
      if (ShardLink* link = LinkOf(from); link != nullptr) {
        link->OnRetryLater(refusal.retry_after_ms, now);
      }
      return;  // the coordinator's are repeated by their own timers
    case StatusCode::kStale:
      if (state_ == State::kLeaving || state_ == State::kDraining) {
        Exit(Status::Revoked(fmt::format("{} ({})", leave_reason_, refusal.message)));
      } else {
        Rejoin(refusal.message, out);
      }
      return;
    default:
      Exit(Status(refusal.code, refusal.message)
               .Annotate(
                   from == coordinator_ ? "refused by the coordinator" : "refused by a shard"));
  }
}

void WorkerCore::OnShutdown(const proto::Shutdown& shutdown, TimePoint now, proto::Outbox* out) {
  log_->Info("shutdown", {{"reason", shutdown.reason}});
  if (incarnation_ != Incarnation() && coordinator_ != proto::PeerId()) {
    SendHeartbeat(now, out);  // what was done since the last one belongs into the summary
  }
  Exit(Status::Ok());
}

void WorkerCore::OnNotice(
    TimePoint deadline, const std::string& reason, TimePoint now, proto::Outbox* out) {
  if (state_ == State::kExited) {
    return;
  }
  if (state_ == State::kDraining || state_ == State::kLeaving) {
    deadline_ = std::min(deadline_, deadline);
    return;
  }
  log_->Info("notice", {{"reason", reason}, {"grace", Seconds1(deadline - now)}});
  deadline_ = deadline;
  leave_reason_ = reason;
  if (is_beginning() && incarnation_ == Incarnation()) {
    Exit(Status::Revoked(reason));  // no member yet
    return;
  }
  state_ = State::kDraining;
  if (const StepWork* work = StepInHand(); work != nullptr && !is_step_dropped_) {
    // Half the grace is kept for the push and the reports.
    const TimePoint expected_end = work->began + FromSeconds(1.5 * step_seconds_);
    if (expected_end > now + (deadline - now) / 2) {
      log_->Info("step_dropped", {{"step", work->done.step}});
      is_step_dropped_ = true;
      ++stats_.steps_dropped;
    }
  }
  Advance(now, out);
}

void WorkerCore::OnDeviceLost(const Status& why, TimePoint now, proto::Outbox* out) {
  is_host_busy_ = false;
  if (is_rejoining_ || is_beginning()) {
    Exit(Status::Revoked(std::string(why.message())));  // holds nothing
    return;
  }
  if (StepInHand() != nullptr && !is_step_dropped_) {
    is_step_dropped_ = true;
    ++stats_.steps_dropped;
  }
  is_evaluating_ = false;
  // As long as others wait for somebody who is silent.
  OnNotice(now + settings_.timing.detect, std::string(why.message()), now, out);
  Advance(now, out);
}

void WorkerCore::Rejoin(const std::string& why, proto::Outbox* out) {
  log_->Warning("fenced", {{"incarnation", incarnation_.value}, {"reason", why}});
  ++session_;
  for (const auto& [shard, link] : links_) {
    if (link->peer() != proto::PeerId()) {
      out->Close(link->peer());
    }
  }
  if (coordinator_ != proto::PeerId()) {
    out->Close(coordinator_);
    coordinator_ = proto::PeerId();
  }
  is_rejoining_ = true;
  // A replacement may have the seat by now, and must not be fenced in turn. Who was fenced before
  // an answer came knows only the seat that it asked for, if any.
  proto::JoinRequest& join = options_.join;
  const bool was_told = incarnation_ != Incarnation();
  join.is_returning = join.is_returning || join.has_seat || was_told;
  join.seat = was_told ? worker_ : join.seat;
  if (!is_host_busy_) {
    ResetSession();
  }
}

void WorkerCore::ResetSession() {
  is_rejoining_ = false;
  state_ = State::kConnecting;
  incarnation_ = Incarnation();
  links_.clear();
  addresses_.clear();
  leases_.clear();
  newest_lease_ = LeaseId();
  is_lease_asked_ = false;
  last_step_ = 0;
  stats_ = proto::WorkerStats();  // the next incarnation's begin at 0
  step_seconds_ = 0;
  rate_samples_ = 0;
  computing_.reset();
  travelling_.reset();
  told_ahead_.reset();
  push_job_ = PushJob();
  is_evaluating_ = false;
  needs_pull_ = true;
  pull_lease_ = LeaseId();
  stash_.clear();
  unacknowledged_.clear();
  evaluation_.reset();
  host_->ConnectCoordinator(Incarnation());
}

void WorkerCore::Exit(const Status& status) {
  if (state_ == State::kExited) {
    return;
  }
  state_ = State::kExited;
  ++session_;
  host_->Exit(status);
}

void WorkerCore::OnTick(TimePoint now, proto::Outbox* out) {
  if (state_ == State::kExited) {
    return;
  }
  const proto::Timing& timing = settings_.timing;
  const Duration pause = silence_.Tick(now, timing.heartbeat * 2);
  if (pause > Duration()) {
    log_->Warning("worker_stalled", {{"seconds", Seconds(pause)}});
  }
  const bool is_leaving = state_ == State::kDraining || state_ == State::kLeaving;
  if (is_leaving && now >= deadline_) {
    Exit(Status::Revoked(fmt::format("{} (grace period over)", leave_reason_)));
    return;
  }
  const bool is_gone = coordinator_ == proto::PeerId();
  if (silence_.IsTooLong(now, !is_gone, timing)) {
    Exit(Status::Unavailable(fmt::format(
        "{} for {}; the run is over or the network is down",
        is_gone ? "no coordinator" : "a silent coordinator",
        Seconds1(silence_.Of(now)))));
    return;
  }
  if (!is_gone && !is_rejoining_) {
    RetryCoordinator(now, out);
  }
  if (is_rejoining_) {
    return;
  }
  for (auto& [shard, link] : links_) {
    link->OnTick(now, out);
  }
  Advance(now, out);
}

}  // namespace ps::client
