#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "ps/base/random.h"
#include "ps/base/retry.h"
#include "ps/base/time.h"
#include "ps/client/coordinator_link.h"
#include "ps/client/session.h"
#include "ps/client/worker_host.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

namespace ps::client {

/// The leases that a worker holds, in the order of their grants, and the request for the next one.
///
/// Invariants: a lease is taken once, and its samples are handed out once each, in order. At most
/// one request is open; it is sent again until a lease answers it.
class LeaseQueue {
 public:
  struct Lease {
    proto::LeaseGrant grant;
    uint64_t next = 0;  // first sample not handed to a step yet

    bool is_train() const { return grant.kind == proto::LeaseKind::kTrain; }

    bool has_work() const { return next < grant.end; }
  };

  /// All outlive it.
  LeaseQueue(const Session& session, CoordinatorLink& coordinator, Random& random)
      : session_(session), coordinator_(coordinator), random_(random) {}

  /// The session begins.
  void Begin();
  void Reset();

  /// False when it is a repetition, or of another incarnation.
  bool Take(const proto::LeaseGrant& grant);

  /// The one to work on; null when there is none. Leases for training that are used up are gone.
  Lease* Front();

  void Pop() { leases_.pop_front(); }

  /// What the next step of a lease is made of.
  SamplesAhead NextOf(const Lease& lease) const;
  /// The samples of its minibatches.
  uint32_t MinibatchOf(const Lease& lease) const;
  /// What the first minibatch after the step in hand will probably be made of, when that is news.
  std::optional<SamplesAhead> NewsAhead();

  bool is_empty() const { return leases_.empty(); }

  /// Whether there is little left, and no request is open.
  bool IsOneWanted() const { return !is_asked_ && leases_.size() <= 1; }

  bool has_work() const { return !leases_.empty() && leases_.front().has_work(); }

  void Ask(TimePoint now, proto::Outbox* out);
  void OnTick(TimePoint now, proto::Outbox* out);
  /// A new connection stands: what is open is due.
  void Hurry(TimePoint now);

  /// The worker leaves: no more leases are asked for.
  void Stop() { retry_.Stop(); }

  /// The lease ends at `end`, where a step of it has ended early. Told again until OnCut.
  void Cut(LeaseId lease, uint64_t end, TimePoint now, proto::Outbox* out);
  void OnCut(const proto::LeaseCut& answer);

  /// The coordinator is being told.
  bool is_cutting() const { return cut_.has_value(); }

  bool is_asked() const { return is_asked_; }

  TimePoint asked_at() const { return asked_at_; }

 private:
  void SendRequest(proto::Outbox* out);

  const Session& session_;
  CoordinatorLink& coordinator_;
  Random& random_;

  std::deque<Lease> leases_;
  LeaseId newest_;
  bool is_asked_ = false;
  TimePoint asked_at_{};
  RetryTimer retry_;
  std::optional<proto::CutLease> cut_;
  RetryTimer cut_retry_;
  std::optional<SamplesAhead> told_ahead_;
};

}  // namespace ps::client
