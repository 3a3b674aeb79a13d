#pragma once

#include <cstdint>
#include <vector>

#include "ps/base/time.h"
#include "ps/client/pull_intake.h"
#include "ps/client/session.h"
#include "ps/client/shard_links.h"
#include "ps/client/worker_host.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

namespace ps::client {

/// The parameters that the host holds: whether a lease may be computed with them, and what comes of
/// new ones.
///
/// Invariant: a new value is handed over once, and while arithmetic reads the parameters only to a
/// host that keeps it from them.
class ParameterGate {
 public:
  /// All outlive it.
  ParameterGate(const Session& session, WorkerHost& host, ShardLinks& links)
      : session_(session), host_(host), links_(links) {}

  void Reset();

  /// The mode of the newest train lease begun.
  proto::Mode mode() const { return mode_; }

  bool is_overlapping() const { return session_.is_overlapping(mode_); }

  /// The values held may be too old for the next train step.
  void RequirePull() { needs_pull_ = true; }

  /// True when the mode allows this lease to be computed with the parameters held; begins a pull if
  /// not.
  bool Prepare(const proto::LeaseGrant& grant, TimePoint now, proto::Outbox* out);

  /// An evaluation begins: a later train step under ssp must pass the staleness bound again.
  void OnEvaluation() { needs_pull_ = mode_ == proto::Mode::kSsp; }

  /// A step on time is computed with the parameters after this worker's step before the last.
  bool IsLate(Step step) const;

  /// Values of one frame.
  void OnValues(std::vector<PullIntake::Fresh> values, bool is_host_busy);
  /// Arithmetic has ended.
  void HandOverStash();

 private:
  const Session& session_;
  WorkerHost& host_;
  ShardLinks& links_;

  proto::Mode mode_ = proto::Mode::kAsync;
  bool needs_pull_ = true;                // parameters must be pulled for the next train step
  LeaseId pull_lease_;                    // the lease that an explicit pull was begun for
  std::vector<PullIntake::Fresh> stash_;  // while arithmetic reads the parameters
};

}  // namespace ps::client
