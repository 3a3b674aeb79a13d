#include "ps/client/lease_queue.h"

#include <algorithm>

namespace ps::client {

void LeaseQueue::Begin() {
  retry_ = RetryTimer(session_.settings.timing.retry_first, session_.settings.timing.retry_limit);
  cut_retry_ = retry_;
}

void LeaseQueue::Reset() {
  leases_.clear();
  newest_ = LeaseId();
  is_asked_ = false;
  cut_.reset();
  cut_retry_.Stop();
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

uint32_t LeaseQueue::MinibatchOf(const Lease& lease) const {
  return lease.grant.minibatch > 0 ? lease.grant.minibatch : session_.minibatch;
}

SamplesAhead LeaseQueue::NextOf(const Lease& lease) const {
  const uint64_t samples = uint64_t{MinibatchOf(lease)} * lease.grant.local_steps;
  return {lease.grant.epoch, lease.next, std::min<uint64_t>(lease.next + samples, lease.grant.end)};
}

std::optional<SamplesAhead> LeaseQueue::NewsAhead() {
  const auto lease = std::ranges::find_if(
      leases_, [](const Lease& held) { return held.is_train() && held.has_work(); });
  if (lease == leases_.end()) {
    return std::nullopt;
  }
  SamplesAhead next = NextOf(*lease);
  next.end = std::min<uint64_t>(next.end, next.begin + MinibatchOf(*lease));
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
      proto::LeaseRequest{
          session_.incarnation, newest_, settings.data, settings.device, settings.frozen_crc},
      out);
}

void LeaseQueue::OnTick(TimePoint now, proto::Outbox* out) {
  if (retry_.IsDue(now)) {
    SendRequest(out);
    retry_.Again(now, &random_);
  }
  if (cut_retry_.IsDue(now)) {
    coordinator_.Send(*cut_, out);
    cut_retry_.Again(now, &random_);
  }
}

void LeaseQueue::Cut(LeaseId lease, uint64_t end, TimePoint now, proto::Outbox* out) {
  for (Lease& held : leases_) {
    if (held.grant.lease == lease) {
      held.grant.end = end;
      held.next = end;
    }
  }
  cut_ = {session_.incarnation, lease, end};
  cut_retry_.Start(now, &random_);
  coordinator_.Send(*cut_, out);
}

void LeaseQueue::OnCut(const proto::LeaseCut& answer) {
  if (cut_ && answer.lease == cut_->lease) {
    cut_.reset();
    cut_retry_.Stop();
  }
}

void LeaseQueue::Hurry(TimePoint now) {
  for (RetryTimer* const retry : {&retry_, &cut_retry_}) {
    if (retry->is_armed()) {
      retry->DueAt(now);
    }
  }
}

}  // namespace ps::client
