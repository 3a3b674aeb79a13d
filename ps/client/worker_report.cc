// Reports of a worker to the coordinator, their repetition, and its statistics.

#include <fmt/core.h>

#include <utility>

#include "ps/client/worker_core.h"

namespace ps::client {

void WorkerCore::SendJoin(TimePoint now, proto::Outbox* out) {
  join_retry_ = RetryTimer(options_.timing.retry_limit, options_.timing.lease);
  join_retry_.Start(now, &random_);
  if (coordinator_ != proto::PeerId()) {
    out->Send(coordinator_, ++next_request_id_, options_.join);
  }
}

/// Without a connection they go out on the next one.
void WorkerCore::SendReports(TimePoint now, proto::Outbox* out) {
  if (state_ == State::kExited) {
    return;
  }
  if (!report_retry_.is_armed()) {
    report_retry_.Start(now, &random_);
  }
  if (coordinator_ == proto::PeerId()) {
    return;
  }
  if (!unacknowledged_.empty()) {
    proto::StepReport report{incarnation_, {unacknowledged_.begin(), unacknowledged_.end()}};
    out->Send(coordinator_, ++next_request_id_, std::move(report));
  }
  if (evaluation_) {
    out->Send(coordinator_, ++next_request_id_, *evaluation_);
  }
}

void WorkerCore::SendLeaseRequest(proto::Outbox* out) {
  if (coordinator_ != proto::PeerId()) {
    proto::LeaseRequest request{incarnation_, newest_lease_, settings_.data, settings_.device};
    out->Send(coordinator_, ++next_request_id_, request);
  }
}

void WorkerCore::SendGoodbye(TimePoint now, proto::Outbox* out) {
  if (coordinator_ != proto::PeerId()) {
    out->Send(
        coordinator_, ++next_request_id_, proto::Goodbye{incarnation_, leave_reason_, Stats(now)});
  }
}

void WorkerCore::SendHeartbeat(TimePoint now, proto::Outbox* out) {
  proto::WorkerHeartbeat beat;
  beat.incarnation = incarnation_;
  beat.state = is_beginning()              ? proto::WorkerState::kJoining
               : state_ != State::kRunning ? proto::WorkerState::kDraining
               : is_host_busy_             ? proto::WorkerState::kComputing
                                           : proto::WorkerState::kWaiting;
  const double window = Seconds(now - rate_since_);
  if (window >= 1.0) {
    stats_.samples_per_s = static_cast<double>(stats_.samples - rate_samples_) / window;
    rate_samples_ = stats_.samples;
    rate_since_ = now;
  }
  beat.stats = Stats(now);
  beat.waits = Waits(now);
  beat.placement = placement_;
  beat.is_at_risk = is_at_risk_;
  out->Send(coordinator_, ++next_request_id_, std::move(beat));
}

void WorkerCore::RetryCoordinator(TimePoint now, proto::Outbox* out) {
  if (state_ == State::kJoining && join_retry_.IsDue(now)) {
    join_retry_.Again(now, &random_);
    out->Send(coordinator_, ++next_request_id_, options_.join);
  }
  if (incarnation_ == Incarnation()) {
    return;
  }
  if (report_retry_.IsDue(now)) {
    ++stats_.retries;
    SendReports(now, out);
    report_retry_.Again(now, &random_);
  }
  if (lease_retry_.IsDue(now)) {
    SendLeaseRequest(out);
    lease_retry_.Again(now, &random_);
  }
  if (goodbye_retry_.IsDue(now)) {
    SendGoodbye(now, out);
    goodbye_retry_.Again(now, &random_);
  }
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + settings_.timing.heartbeat;
    SendHeartbeat(now, out);
  }
}

proto::WorkerStats WorkerCore::Stats(TimePoint now) const {
  proto::WorkerStats stats = stats_;
  for (const auto& [shard, link] : links_) {
    stats.bytes_pushed += link->bytes_pushed();
    stats.bytes_pulled += link->bytes_pulled();
    stats.retries += link->retries();
  }
  if (!is_host_busy_ && state_ != State::kExited && !is_beginning()) {
    stats.wait_s += Seconds(now - waiting_since_);
  }
  return stats;
}

std::vector<proto::Wait> WorkerCore::Waits(TimePoint now) const {
  std::vector<proto::Wait> waits;
  const std::string me = fmt::format("w{}", worker_.value);
  if (state_ == State::kLoading) {
    const std::string what = host_->LoadingText();
    waits.push_back(
        {me, "its data", "loading " + what, Seconds(now - waiting_since_), generation_});
  }
  for (const auto& [shard, link] : links_) {
    if (link->is_push_done() && link->is_pull_done()) {
      continue;
    }
    const bool is_connected = link->peer() != proto::PeerId();
    if (is_connected && !is_host_busy_) {
      waits.push_back(
          {me,
           fmt::format("shard {}", shard.value),
           link->is_push_done() ? "an answer to a pull" : "the acknowledgement of a push",
           Seconds(now - link->waiting_since()),
           generation_});
    } else if (!is_connected) {
      waits.push_back(
          {me,
           fmt::format("shard {}", shard.value),
           "a connection",
           Seconds(now - link->waiting_since()),
           generation_});
    }
  }
  if (is_lease_asked_ && leases_.empty() && !is_host_busy_) {
    waits.push_back({me, "coordinator", "a lease", Seconds(now - lease_asked_at_), generation_});
  }
  return waits;
}

}  // namespace ps::client
