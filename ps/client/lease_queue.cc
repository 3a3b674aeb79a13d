#include "ps/client/lease_queue.h"

#include <algorithm>

namespace ps::client {

void LeaseQueue::Begin() {
  retry_ = RetryTimer(session_.settings.timing.retry_first, session_.settings.timing.retry_limit);
}

void LeaseQueue::Reset() {
  leases_.clear();
  newest_ = LeaseId();
  is_asked_ = false;
  told_ahead_.reset();
}

bool LeaseQueue::Take(const proto::LeaseGrant& grant) {
  if (grant.incarnation != session_.incarnation || grant.lease <= newest_) {
    return false;
  }
  newest_ = grant.lease;
  is_asked_ = false;
  retry_.Stop();
  leases_.push_back({grant, grant.begin});
  return true;
}

LeaseQueue::Lease* LeaseQueue::Front() {
  while (!leases_.empty() && leases_.front().is_train() && !leases_.front().has_work()) {
    leases_.pop_front();
  }
  return leases_.empty() ? nullptr : &leases_.front();
}

SamplesAhead LeaseQueue::NextOf(const Lease& lease) const {
  const uint32_t minibatch = lease.grant.minibatch > 0 ? lease.grant.minibatch : session_.minibatch;
  return {
      lease.grant.epoch, lease.next, std::min<uint64_t>(lease.next + minibatch, lease.grant.end)};
}

std::optional<SamplesAhead> LeaseQueue::NewsAhead() {
  const auto lease = std::ranges::find_if(
      leases_, [](const Lease& held) { return held.is_train() && held.has_work(); });
  if (lease == leases_.end()) {
    return std::nullopt;
  }
  const SamplesAhead next = NextOf(*lease);
  if (told_ahead_ == next) {
    return std::nullopt;
  }
  told_ahead_ = next;
  return next;
}

void LeaseQueue::Ask(TimePoint now, proto::Outbox* out) {
  is_asked_ = true;
  asked_at_ = now;
  retry_.Start(now, &random_);
  SendRequest(out);
}

void LeaseQueue::SendRequest(proto::Outbox* out) {
  const WorkerSettings& settings = session_.settings;
  coordinator_.Send(
      proto::LeaseRequest{session_.incarnation, newest_, settings.data, settings.device}, out);
}

void LeaseQueue::OnTick(TimePoint now, proto::Outbox* out) {
  if (retry_.IsDue(now)) {
    SendRequest(out);
    retry_.Again(now, &random_);
  }
}

void LeaseQueue::Hurry(TimePoint now) {
  if (retry_.is_armed()) {
    retry_.DueAt(now);
  }
}

}  // namespace ps::client
