// What a worker tells the coordinator of itself, and the repetition of what was not answered.

#include <fmt/core.h>

#include <utility>

#include "ps/client/worker_core.h"

namespace ps::client {

void WorkerCore::SendGoodbye(TimePoint now, proto::Outbox* out) {
  coordinator_.Send(proto::Goodbye{incarnation(), leave_reason_, Stats(now)}, out);
}

void WorkerCore::SendHeartbeat(TimePoint now, proto::Outbox* out) {
  proto::WorkerHeartbeat beat;
  beat.incarnation = incarnation();
  beat.state = is_beginning()          ? proto::WorkerState::kJoining
               : !is_running()         ? proto::WorkerState::kDraining
               : steps_.is_host_busy() ? proto::WorkerState::kComputing
                                       : proto::WorkerState::kWaiting;
  times_.UpdateRate(now);
  beat.stats = Stats(now);
  beat.waits = Waits(now);
  beat.placement = links_.placement();
  beat.is_at_risk = is_at_risk_;
  beat.minibatches = times_.minibatches();
  beat.figures = host_.Figures();
  beat.ignored = ignored_notice_;
  coordinator_.Send(std::move(beat), out);
}

void WorkerCore::RetryCoordinator(TimePoint now, proto::Outbox* out) {
  if (state_ == State::kJoining && join_retry_.IsDue(now)) {
    join_retry_.Again(now, &random_);
    coordinator_.Send(options_.join, out);
  }
  if (!session_.is_member()) {
    return;
  }
  if (reports_.OnTick(now, out)) {
    ++times_.counters().retries;
  }
  leases_.OnTick(now, out);
  if (goodbye_retry_.IsDue(now)) {
    SendGoodbye(now, out);
    goodbye_retry_.Again(now, &random_);
  }
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + session_.settings.timing.heartbeat;
    SendHeartbeat(now, out);
  }
}

proto::WorkerStats WorkerCore::Stats(TimePoint now) const {
  proto::WorkerStats stats = times_.At(now);
  links_.AddTo(&stats);
  if (!steps_.is_host_busy() && state_ != State::kExited && !is_beginning()) {
    stats.wait_s += Seconds(now - times_.waiting_since());
  }
  return stats;
}

/// The way to the host's thread and back is nothing that could be named.
WaitingFor WorkerCore::WhatIsAwaited() const {
  const bool is_working = state_ == State::kRunning || state_ == State::kDraining;
  if (!is_working || is_rejoining_ || steps_.is_host_busy()) {
    return WaitingFor::kNothing;
  }
  const bool may_be_held = parameters_.mode() != proto::Mode::kAsync;
  if (steps_.is_travelling()) {
    return WaitingFor::kPush;
  }
  if (leases_.is_empty()) {
    return parameters_.mode() == proto::Mode::kBsp ? WaitingFor::kOthers : WaitingFor::kLease;
  }
  if (!links_.are_pulls_done()) {
    return may_be_held && links_.are_pulls_held() ? WaitingFor::kOthers : WaitingFor::kPull;
  }
  return WaitingFor::kNothing;
}

std::vector<proto::Wait> WorkerCore::Waits(TimePoint now) const {
  std::vector<proto::Wait> waits;
  const std::string me = fmt::format("w{}", worker().value);
  const auto add = [&](const char* for_whom, std::string what, TimePoint since) {
    waits.push_back({me, for_whom, std::move(what), Seconds(now - since), session_.generation});
  };
  if (state_ == State::kLoading) {
    add("its data", "loading " + host_.LoadingText(), times_.waiting_since());
  }
  links_.AddWaits(me, steps_.is_host_busy(), now, &waits);
  if (leases_.is_asked() && leases_.is_empty() && !steps_.is_host_busy()) {
    add("coordinator", "a lease", leases_.asked_at());
  }
  return waits;
}

}  // namespace ps::client
