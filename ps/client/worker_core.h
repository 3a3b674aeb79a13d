#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/base/retry.h"
#include "ps/client/chunk_layout.h"
#include "ps/client/gradient_loan.h"
#include "ps/client/pull_intake.h"
#include "ps/client/shard_link.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/proto/silence.h"
#include "ps/proto/timing.h"

namespace ps::client {

/// What the core needs to know of the job; the host reads it out of JoinReply.
struct WorkerSettings {
  bool overlap = true;  // async: compute the next step while this one travels
  size_t frame_bytes = 512U << 10;
  proto::Timing timing;
  std::vector<int64_t> tensor_elements;             // of the model as this program builds it
  std::vector<proto::GradientDtype> tensor_dtypes;  // of each one's gradient; none: all f32
  proto::DatasetFingerprint data;                   // as this program has read it
  std::string device;                               // that it computes on, for people
};

/// One piece of arithmetic for the host.
struct ComputeTask {
  uint64_t session = 0;  // handed back; answers of an earlier session are dropped
  proto::LeaseKind kind = proto::LeaseKind::kTrain;
  Step step = 0;  // train
  uint32_t epoch = 0;
  uint64_t begin = 0;  // samples [begin, end)
  uint64_t end = 0;
};

/// Training samples of an epoch's order.
struct SamplesAhead {
  uint32_t epoch = 0;
  uint64_t begin = 0;  // samples [begin, end)
  uint64_t end = 0;

  friend bool operator==(const SamplesAhead&, const SamplesAhead&) = default;
};

struct ComputeResult {
  double loss_sum = 0;
  uint64_t correct = 0;
  double seconds = 0;
};

/// The world as a worker's core sees it, apart from messages. Implemented by the worker program and
/// by the simulation. Calls back into the core come later, never from inside.
class WorkerHost {
 public:
  virtual ~WorkerHost() = default;

  /// Has all in memory that Configure needs of the reply. Where that takes long the host begins it
  /// on another thread and returns the job's times; WorkerCore::OnLoaded follows, and the core asks
  /// anew. So heartbeats go on, and notices are heard, however long it takes. Nothing: all is
  /// there. An error is as one of Configure.
  virtual Result<std::optional<proto::Timing>> Load(const proto::JoinReply& /*reply*/) {
    return std::optional<proto::Timing>();
  }

  /// What is being loaded and how far it is, for people: "/data, 34 %".
  virtual std::string LoadingText() const { return {}; }

  /// Builds the model. An error is the reason why this program cannot take part, and ends it.
  virtual Result<WorkerSettings> Configure(const proto::JoinReply& reply) = 0;
  /// Connects, and again whenever the connection is lost, until Exit. `incarnation` goes into
  /// Hello.
  virtual void ConnectCoordinator(Incarnation incarnation) = 0;
  virtual void ConnectShard(const proto::ShardAddress& address, Incarnation incarnation) = 0;

  /// The shard is no part of the job any more: it is not to be connected.
  virtual void ForgetShard(ShardId /*shard*/) {}

  /// After Configure, before anything is handed over or lent: makes room for the parameters and for
  /// so many gradients at a time. Of an earlier call nothing is of use any more, but for loans that
  /// a transport still holds. An error is as one of Configure.
  virtual Status Prepare(const ChunkLayout& layout, size_t gradients) = 0;

  /// New values of a chunk, or of a part of one, which the host copies before it returns. No task
  /// is under way; others still come, so a device can fetch these meanwhile.
  virtual void TakeChunk(const PullIntake::Fresh& fresh) = 0;

  /// Begins a task with the parameters handed over. Returns the gradient that a train task will
  /// fill, of the types that WorkerSettings says; null for an evaluation. An error ends the worker.
  virtual Result<GradientLoan> StartCompute(const ComputeTask& task) = 0;

  /// The train task after the one under way will probably be of these samples, so that a host can
  /// fetch them meanwhile. Nothing counts before StartCompute.
  virtual void OnSamplesAhead(const SamplesAhead& /*next*/) {}

  /// The core is finished: OK at the job's end, kRevoked after a notice, else why it can't go on.
  virtual void Exit(const Status& status) = 0;
};

/// A worker without its arithmetic and its sockets: joins, takes leases, pulls, has minibatches
/// computed, pushes, reports, drains on a notice, and joins anew when it finds itself fenced.
/// Sans-I/O: time and messages come in, messages go to an Outbox. Thread: one.
class WorkerCore {
 public:
  struct Options {
    proto::JoinRequest join;  // seat, host, pid
    proto::Timing timing;     // until JoinReply tells the job's
    uint64_t seed = 0;        // for jitter only
  };

  /// `host` and `log` outlive the core.
  WorkerCore(Options options, WorkerHost* host, const Logger* log);

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

  /// The gradient of `tensor` has its final value; optional, lets a push begin during backward.
  void OnTensorReady(uint64_t session, uint32_t tensor, TimePoint now, proto::Outbox* out);
  /// A train task is done, all of its gradient included.
  void OnComputed(uint64_t session, const ComputeResult& result, TimePoint now, proto::Outbox* out);
  void OnEvaluated(
      uint64_t session, const ComputeResult& result, TimePoint now, proto::Outbox* out);

  /// The device that computes is lost, with the task in hand: hand over the rest and leave, as on
  /// a notice.
  void OnDeviceLost(const Status& why, TimePoint now, proto::Outbox* out);

  /// The provider advises to move, or does not any more: the coordinator is told.
  void OnRisk(bool is_at_risk) { is_at_risk_ = is_at_risk; }

  /// The instance is taken back at `deadline`: finish or drop the step in hand, hand over, leave.
  void OnNotice(TimePoint deadline, const std::string& reason, TimePoint now, proto::Outbox* out);

  // For hosts, tests and the simulation's checkers.
  const ChunkLayout& layout() const { return layout_; }

  WorkerId worker() const { return worker_; }

  Incarnation incarnation() const { return incarnation_; }

  /// The latest of all coordinators, for Hello.
  proto::Term term() const { return term_; }

  proto::WorkerStats Stats(TimePoint now) const;

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

  struct Lease {
    proto::LeaseGrant grant;
    uint64_t next = 0;  // first sample not handed to a step yet
  };

  /// One step from the start of its arithmetic to the last shard's acknowledgement.
  struct StepWork {
    proto::StepDone done;
    uint64_t round = 0;
    GradientLoan gradient;
    bool is_computed = false;
    std::vector<uint32_t> ready_tensors;  // until the push has begun
    TimePoint began{};
  };

  /// Of one frame.
  struct Arrived {
    std::vector<PullIntake::Fresh> chunks;
    std::shared_ptr<const void> owner;  // of their bytes
  };

  void OnJoinReply(const proto::JoinReply& reply, TimePoint now, proto::Outbox* out);
  void BecomeMember(const proto::JoinReply& reply, const proto::Timing& timing, TimePoint now);

  /// It has no shards, no leases and no parameters yet.
  bool is_beginning() const {
    return state_ == State::kConnecting || state_ == State::kJoining || state_ == State::kLoading;
  }

  /// Tells the coordinator why, and ends.
  void RefuseToJoin(const Status& why, proto::Outbox* out);
  void OnLeaseGrant(const proto::LeaseGrant& grant, TimePoint now);
  void OnStepAck(const proto::StepAck& ack);
  void OnPullReply(
      uint64_t request_id, ShardLink* link, const proto::PullReply& reply, TimePoint now);
  void OnShardAddresses(const proto::ShardAddresses& message, TimePoint now, proto::Outbox* out);
  void AddLink(const proto::ShardAddress& address);
  void TakePlacement(const proto::ShardAddresses& message, TimePoint now, proto::Outbox* out);
  void ForgetShards(const proto::ShardAddresses& message, proto::Outbox* out);
  void OnRefusal(
      proto::PeerId from, const proto::Refusal& refusal, TimePoint now, proto::Outbox* out);
  void OnShutdown(const proto::Shutdown& shutdown, TimePoint now, proto::Outbox* out);

  /// Does all that can be done now; called after every input.
  void Advance(TimePoint now, proto::Outbox* out);
  void AdvanceTravelling(TimePoint now, proto::Outbox* out);
  void AdvanceCompute(TimePoint now, proto::Outbox* out);
  void AdvanceLease(TimePoint now, proto::Outbox* out);
  void AdvanceDrain(TimePoint now, proto::Outbox* out);
  void TellSamplesAhead();
  /// What the next step of a lease is of.
  SamplesAhead NextOf(const Lease& lease) const;
  bool PrepareParameters(const Lease& lease, TimePoint now, proto::Outbox* out);
  void StartStep(Lease* lease, TimePoint now, proto::Outbox* out);
  void StartEvaluation(const Lease& lease);
  /// Returns the gradient that it will fill. Null for an evaluation, and after an error's Exit.
  GradientLoan GiveTask(const ComputeTask& task);
  bool IsLate(Step step) const;
  void BeginTravel(TimePoint now, proto::Outbox* out);
  void HandOver(const Arrived& arrived);
  void HandOverStash();

  void SendJoin(TimePoint now, proto::Outbox* out);
  void SendReports(TimePoint now, proto::Outbox* out);
  void SendHeartbeat(TimePoint now, proto::Outbox* out);
  void SendGoodbye(TimePoint now, proto::Outbox* out);
  void SendLeaseRequest(proto::Outbox* out);
  void RetryCoordinator(TimePoint now, proto::Outbox* out);
  std::vector<proto::Wait> Waits(TimePoint now) const;

  /// Fenced: everything of this incarnation is void. Joins anew, once no arithmetic is under way.
  void Rejoin(const std::string& why, proto::Outbox* out);
  void ResetSession();
  void Exit(const Status& status);
  bool are_all_pulls_done() const;
  TimePoint ArithmeticEnd(const ComputeResult& result, TimePoint now) const;
  /// The step whose arithmetic is under way, or null.
  StepWork* StepInHand();

  bool is_overlapping() const { return settings_.overlap && mode_ == proto::Mode::kAsync; }

  ShardLink* LinkOf(proto::PeerId peer);

  /// What the shard has said holds for the chunks that this worker takes for its own.
  bool IsUpToDate(const ShardLink& link) const { return link.seen_placement() <= placement_; }

  // Constant after construction.
  Options options_;
  WorkerHost* const host_;
  const Logger* const log_;

  State state_ = State::kConnecting;
  uint64_t session_ = 0;
  Random random_;
  proto::PeerId coordinator_;
  proto::Term term_ = 0;  // the latest of all coordinators
  proto::CoordinatorSilence silence_;
  uint64_t next_request_id_ = 0;

  // Of the present incarnation.
  WorkerId worker_;
  Incarnation incarnation_;
  Generation generation_;
  uint32_t minibatch_ = 1;
  WorkerSettings settings_;
  ChunkLayout layout_;
  uint64_t placement_ = 0;  // that the layout is of
  bool is_at_risk_ = false;
  std::map<ShardId, std::unique_ptr<ShardLink>> links_;
  std::map<ShardId, proto::ShardAddress> addresses_;  // where each was last

  // Leases and steps.
  std::deque<Lease> leases_;
  proto::Mode mode_ = proto::Mode::kAsync;  // of the newest train lease begun
  LeaseId newest_lease_;
  bool is_lease_asked_ = false;
  TimePoint lease_asked_at_{};
  Step last_step_ = 0;
  std::optional<StepWork> computing_;
  std::optional<StepWork> travelling_;
  PushJob push_job_;  // of that
  std::optional<SamplesAhead> told_ahead_;
  bool is_evaluating_ = false;
  bool is_host_busy_ = false;   // arithmetic under way, of whatever session
  bool needs_pull_ = true;      // parameters must be pulled for the next train step
  LeaseId pull_lease_;          // the lease that an explicit pull was begun for
  std::vector<Arrived> stash_;  // while arithmetic read the parameters
  std::deque<proto::StepDone> unacknowledged_;
  std::optional<proto::EvaluateReport> evaluation_;

  // Leaving.
  TimePoint deadline_{};
  std::string leave_reason_;
  bool is_step_dropped_ = false;  // the one in hand: its arithmetic is not waited for
  bool is_rejoining_ = false;

  RetryTimer join_retry_;
  RetryTimer lease_retry_;
  RetryTimer report_retry_;
  RetryTimer goodbye_retry_;
  TimePoint next_heartbeat_{};

  // Statistics.
  proto::WorkerStats stats_;
  TimePoint task_since_{};     // given to the host
  TimePoint waiting_since_{};  // arithmetic last ended
  double step_seconds_ = 0;    // smoothed
  TimePoint rate_since_{};
  uint64_t rate_samples_ = 0;
};

}  // namespace ps::client
