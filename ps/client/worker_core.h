#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/base/retry.h"
#include "ps/base/status.h"
#include "ps/client/coordinator_link.h"
#include "ps/client/lease_queue.h"
#include "ps/client/parameter_gate.h"
#include "ps/client/session.h"
#include "ps/client/shard_links.h"
#include "ps/client/step_pipeline.h"
#include "ps/client/step_reports.h"
#include "ps/client/work_times.h"
#include "ps/client/worker_host.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/proto/timing.h"

namespace ps::client {

/// A worker without its arithmetic and its sockets: joins, takes leases, pulls, has minibatches
/// computed, pushes, reports, drains on a notice, and joins anew when it finds itself fenced.
/// Sans-I/O: time and messages come in, messages go to an Outbox. Thread: one.
///
/// The core itself joins and leaves. What a member does is done by its parts, each of which owns
/// its state; the core hands each message to its part.
class WorkerCore {
 public:
  struct Options {
    proto::JoinRequest join;  // seat, host, pid
    proto::Timing timing;     // until JoinReply tells the job's
    uint64_t seed = 0;        // for jitter only
  };

  /// `host` and `log` outlive the core.
  WorkerCore(Options options, WorkerHost* host, const Logger* log);
  WorkerCore(const WorkerCore&) = delete;
  WorkerCore& operator=(const WorkerCore&) = delete;

  void Start(TimePoint now);

  /// A connection to a coordinator stands, the first or another one. One of an earlier term
  /// than that of another coordinator before is closed: it is not the run's any more.
  void OnCoordinatorConnected(
      proto::PeerId peer, proto::Term term, TimePoint now, proto::Outbox* out);
  void OnShardConnected(ShardId shard, proto::PeerId peer, TimePoint now, proto::Outbox* out);
  void OnPeerClosed(proto::PeerId peer, TimePoint now);
  void OnMessage(
      proto::PeerId from,
      uint64_t request_id,
      proto::Message message,
      TimePoint now,
      proto::Outbox* out);
  void OnTick(TimePoint now, proto::Outbox* out);

  /// What WorkerHost::Load has begun is over, well or not.
  void OnLoaded(TimePoint now, proto::Outbox* out);

  /// One of the minibatches of a train task with local steps is done, and the task goes on: what
  /// heartbeats tell of it keeps a long step from looking like no progress.
  void OnLocalStep(uint64_t session, uint32_t samples);

  /// The gradient of `tensor` has its final value; optional, lets a push begin during backward.
  void OnTensorReady(uint64_t session, uint32_t tensor, TimePoint now, proto::Outbox* out);
  /// A train task is done, all of its gradient included.
  void OnComputed(uint64_t session, const ComputeResult& result, TimePoint now, proto::Outbox* out);
  void OnEvaluated(
      uint64_t session, const ComputeResult& result, TimePoint now, proto::Outbox* out);

  /// The device that computes is lost, with the task in hand: hand over the rest and leave, as on
  /// a notice.
  void OnDeviceLost(const Status& why, TimePoint now, proto::Outbox* out);
  /// The task in hand can't be computed: the coordinator is told why, and the worker ends.
  void OnComputeFailed(const Status& why, proto::Outbox* out);

  /// The provider advises to move, or does not any more: the coordinator is told.
  void OnRisk(bool is_at_risk) { is_at_risk_ = is_at_risk; }

  /// What the provider announces and is no notice of this machine, with the reason; empty: nothing
  /// any more. The coordinator is told.
  void OnIgnoredNotice(std::string what) { ignored_notice_ = std::move(what); }

  /// The instance is taken back at `deadline`: finish or drop the step in hand, hand over, leave.
  void OnNotice(TimePoint deadline, const std::string& reason, TimePoint now, proto::Outbox* out);

  // For hosts, tests and the simulation's checkers.
  const ChunkLayout& layout() const { return links_.layout(); }

  WorkerId worker() const { return session_.worker; }

  Incarnation incarnation() const { return session_.incarnation; }

  /// The latest of all coordinators, for Hello.
  proto::Term term() const { return coordinator_.term(); }

  proto::WorkerStats Stats(TimePoint now) const;

  /// It was told to go: what is under way is finished or dropped, and no more begins.
  bool is_leaving() const { return state_ == State::kDraining || state_ == State::kLeaving; }

 private:
  enum class State : uint8_t {
    kConnecting,
    kJoining,
    kLoading,  // a member; what it knows of shards and chunks it asks for when it is done
    kRunning,
    kDraining,
    kLeaving,
    kExited
  };

  void OnCoordinatorMessage(const proto::Message& message, TimePoint now, proto::Outbox* out);
  void OnShardMessage(
      ShardLink* link,
      uint64_t request_id,
      const proto::Message& message,
      TimePoint now,
      proto::Outbox* out);
  void OnRefusal(
      proto::PeerId from, const proto::Refusal& refusal, TimePoint now, proto::Outbox* out);
  void OnShutdown(const proto::Shutdown& shutdown, TimePoint now, proto::Outbox* out);
  void OnLeaseGrant(const proto::LeaseGrant& grant, TimePoint now);

  // Joining.
  void SendJoin(TimePoint now, proto::Outbox* out);
  void OnJoinReply(const proto::JoinReply& reply, TimePoint now, proto::Outbox* out);
  /// Sets up what computes. Errors: why this program can't take part.
  Status Configure(const proto::JoinReply& reply);
  void BecomeMember(const proto::JoinReply& reply, const proto::Timing& timing, TimePoint now);

  // Leaving.
  void AdvanceDrain(TimePoint now, proto::Outbox* out);
  void SendGoodbye(TimePoint now, proto::Outbox* out);
  /// Fenced: everything of this incarnation is void. Joins anew, once no arithmetic is under way.
  void Rejoin(const std::string& why, proto::Outbox* out);
  void ResetSession();
  void SendRefusal(const Status& why, proto::Outbox* out);
  void Exit(const Status& status);
  void ExitOnError(const Status& status);

  /// Does all that can be done now; called after every input.
  void Advance(TimePoint now, proto::Outbox* out);
  void AdvanceLease(TimePoint now, proto::Outbox* out);
  void RetryCoordinator(TimePoint now, proto::Outbox* out);
  void SendHeartbeat(TimePoint now, proto::Outbox* out);
  std::vector<proto::Wait> Waits(TimePoint now) const;
  WaitingFor WhatIsAwaited() const;
  /// Arithmetic is over. False when its result is of no use to this core any more.
  bool TakeHostBack();

  /// It has no shards, no leases and no parameters yet.
  bool is_beginning() const {
    return state_ == State::kConnecting || state_ == State::kJoining || state_ == State::kLoading;
  }

  bool is_running() const { return state_ == State::kRunning; }

  Options options_;
  WorkerHost& host_;
  const Logger& log_;

  State state_ = State::kConnecting;
  bool is_rejoining_ = false;
  bool is_at_risk_ = false;
  std::string ignored_notice_;
  Random random_;
  RetryTimer join_retry_;
  TimePoint next_heartbeat_{};

  // Leaving.
  TimePoint deadline_{};
  std::string leave_reason_;
  RetryTimer goodbye_retry_;

  // What the parts share, and the parts.
  Session session_;
  CoordinatorLink coordinator_;
  ShardLinks links_;
  LeaseQueue leases_;
  ParameterGate parameters_;
  StepReports reports_;
  WorkTimes times_;
  StepPipeline steps_;
};

}  // namespace ps::client
