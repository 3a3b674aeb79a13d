#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/base/retry.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/base/time.h"
#include "ps/coordinator/evaluations.h"
#include "ps/coordinator/fault_schedule.h"
#include "ps/coordinator/fleet_actions.h"
#include "ps/coordinator/ledger.h"
#include "ps/coordinator/membership.h"
#include "ps/coordinator/progress_meter.h"
#include "ps/coordinator/rounds.h"
#include "ps/coordinator/seats.h"
#include "ps/coordinator/shard_table.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/proto/timing.h"

namespace ps::coordinator {

struct CoordinatorOptions {
  proto::JobConfig config;
  std::vector<TensorSpec> tensors;  // of the resolved model
  uint64_t train_samples = 0;       // of an epoch, > 0
  uint64_t test_samples = 0;        // 0: nothing is evaluated
  std::string run_directory;        // for JobStatus only
};

/// Runs one job: who takes part, which samples are whose, what counts, when it ends. Sans-I/O: time
/// and messages come in, messages go to an Outbox, processes are asked for through FleetActions.
/// Thread: one.
///
/// The shell does the handshake (token, HelloReply), calls OnTick every Timing::tick, and ends when
/// is_finished(): all workers and shards have left then, or had the time to.
class CoordinatorCore {
 public:
  /// `fleet` and `log` outlive the core.
  CoordinatorCore(CoordinatorOptions options, FleetActions* fleet, const Logger* log);

  /// Asks for the servers and workers of the config.
  void Start(TimePoint now);

  void OnPeerConnected(
      proto::PeerId peer, const proto::Hello& hello, TimePoint now, proto::Outbox* out);
  void OnMessage(
      proto::PeerId from,
      uint64_t request_id,
      proto::Message message,
      TimePoint now,
      proto::Outbox* out);
  void OnPeerClosed(proto::PeerId peer, TimePoint now, proto::Outbox* out);
  void OnProcessExited(const ProcessEnd& end, TimePoint now, proto::Outbox* out);
  void OnTick(TimePoint now, proto::Outbox* out);
  /// Ends the run for the reason `why`: after the steps under way, or at once. A second call may
  /// only hurry it.
  void RequestStop(bool is_immediate, const std::string& why, TimePoint now, proto::Outbox* out);

  proto::JobStatus StatusAt(TimePoint now) const;

  /// The outcome is final and everybody has left, or had the time to.
  bool is_finished() const;
  /// OK when the job was done; kCancelled when it was stopped; else why it failed. Final once
  /// is_finished().
  const Status& outcome() const;
  /// For process exit: 0 done or stopped, 1 failed.
  int exit_code() const;

  /// Verifies every invariant of ledger and membership; for tests and the simulation.
  Status Check() const;

  const SampleLedger& ledger() const { return ledger_; }

 private:
  enum class Phase : uint8_t {
    kStarting,  // until the shards are set up and the first workers have asked for work
    kTraining,  // epochs and evaluations
    kStopping,  // workers hand over and leave
    kLeaving,   // the outcome is known; everybody is told to leave
    kFinished,
  };

  struct Peer {
    proto::Role role = proto::Role::kControl;
    std::string node;
    Incarnation incarnation;  // workers: by Hello, or granted on this connection; at most one
  };

  struct PendingJoin {
    proto::JoinRequest request;
    uint64_t request_id = 0;
    TimePoint since{};
  };

  struct PendingKill {
    WorkerId seat;
    Incarnation incarnation;  // none: it had not joined when the notice was given
    TimePoint due{};
  };

  /// What every handler needs: who asked, when, and where answers go.
  struct Call {
    proto::PeerId from;
    uint64_t request_id = 0;
    TimePoint now{};
    proto::Outbox* out = nullptr;
  };

  struct Counters {
    uint64_t steps_counted = 0;
    uint64_t steps_lost = 0;
    uint64_t steps_partial = 0;
    uint64_t samples_rejected = 0;
    uint64_t revocations_noticed = 0;
    uint64_t revocations_unnoticed = 0;
    uint64_t joins = 0;
  };

  // coordinator_core.cc
  void Reply(const Call& call, proto::Message message);
  void Refuse(const Call& call, StatusCode code, const std::string& text, Step step = 0);
  bool HasRole(const Call& call, proto::Role role);
  void ClosePeer(proto::PeerId peer, const Call& call);
  void ForgiveOwnSilence(TimePoint now);
  /// Does all that follows from what has just changed; the end of every event.
  void Settle(const Call& call);

  bool IsWorking() const { return phase_ < Phase::kLeaving; }

  // Any message that no overload takes is refused.
  template <typename T>
  void On(const Call& call, const T& message);
  void On(const Call& call, const proto::RegisterShard& message);
  void On(const Call& call, const proto::ShardReady& message);
  void On(const Call& call, const proto::MembershipAck& message);
  void On(const Call& call, const proto::CommitAck& message);
  void On(const Call& call, const proto::ShardHeartbeat& message);
  void On(const Call& call, const proto::JoinRequest& message);
  void On(const Call& call, const proto::LeaseRequest& message);
  void On(const Call& call, const proto::StepReport& message);
  void On(const Call& call, const proto::EvaluateReport& message);
  void On(const Call& call, const proto::WorkerHeartbeat& message);
  void On(const Call& call, const proto::Goodbye& message);
  void On(const Call& call, const proto::StatusRequest& message);
  void On(const Call& call, const proto::StopRequest& message);
  void On(const Call& call, const proto::Refusal& message);

  // coordinator_shards.cc
  Shard* ShardOf(const Call& call, ShardId shard);
  void SendSetup(Shard* shard, const Call& call);
  void SendMembership(Shard* shard, const Call& call);
  void SendCommit(Shard* shard, const Call& call);
  void Broadcast(const Call& call);
  void ResendToShards(const Call& call);
  void CheckShardSilence(const Call& call);
  void FailLostServer(uint32_t server, int64_t pid, const std::string& why, const Call& call);

  // coordinator_joins.cc
  Member* MemberOf(const Call& call, Incarnation incarnation);
  void RefuseConnection(const Call& call, Incarnation incarnation);
  void AdmitPending(const Call& call);
  void Admit(const Call& call, const proto::JoinRequest& request);
  /// bsp: shards keep a gradient of each member until the round is committed; so many have room.
  uint64_t MembersMax() const;
  std::optional<WorkerId> ChooseSeat(const proto::JoinRequest& request, const Call& call);
  void AnswerJoins(const Call& call);
  void SendJoinReply(const Member& member, const Call& call);

  // coordinator_departures.cc
  void RemoveMember(
      Incarnation incarnation, LeaveKind kind, const std::string& reason, const Call& call);
  void RemoveLost(Incarnation incarnation, const std::string& reason, const Call& call);
  void ResolveDepartures(const Call& call);
  void Resolve(Departure* departure, TimePoint now);
  void CheckWorkerSilence(const Call& call);
  bool IsOwingWork(const Member& member) const;
  Duration ProgressLimit(const Member& member) const;

  // coordinator_work.cc
  void ServeLeases(const Call& call);
  bool ServeEvaluation(Member* member, const Call& call);
  bool ServeTraining(Member* member, const Call& call);
  void SendGrant(Member* member, proto::LeaseGrant grant, const Call& call);
  uint64_t LeaseSamples(const Member& member) const;
  Status CountStep(Member* member, const proto::StepDone& done, TimePoint now);
  /// bsp: it is to enter the open round and has not asked yet.
  bool IsAwaited(const Member& member) const;
  bool TryCommit(const Call& call);
  void FinishEpochs();

  /// Whether a train lease could be granted now to somebody.
  bool HasTrainingWork() const;

  uint32_t epochs_ahead() const { return is_bsp() ? 0 : 1; }

  bool is_bsp() const { return options_.config.train.mode == proto::Mode::kBsp; }

  bool is_ssp() const { return options_.config.train.mode == proto::Mode::kSsp; }

  // coordinator_end.cc
  void AdvanceStart(const Call& call);
  void CheckJoinTimeout(const Call& call);
  void FireFaults(const Call& call);
  void FireKills(const Call& call);
  void AdvanceEnd(const Call& call);
  void Fail(Status why, const Call& call);
  void BeginStop(const Call& call);
  void SendDrains(const Call& call);
  void BeginLeaving(Status outcome, const std::string& reason, bool is_hurried, const Call& call);
  void TellToLeave(const Call& call);
  void TakeLastStats(const Call& call, const proto::WorkerHeartbeat& message);
  void AdvanceLeaving(const Call& call);

  // coordinator_status.cc
  std::string StateName() const;
  std::string Detail() const;
  proto::WorkerRow RowOf(const Member& member, TimePoint now) const;
  void AddWorkerRows(TimePoint now, proto::JobStatus* status) const;
  void AddShardRows(proto::JobStatus* status) const;
  void AddWaits(TimePoint now, proto::JobStatus* status) const;
  void AddOwnWaits(TimePoint now, proto::JobStatus* status) const;
  std::string ShardsBehind(Generation generation) const;

  // Constant after construction.
  const CoordinatorOptions options_;
  const proto::Timing timing_;
  const proto::Placement placement_;
  const std::string config_json_;
  FleetActions* const fleet_;
  const Logger* const log_;

  Phase phase_ = Phase::kStarting;
  Status outcome_;
  std::string stop_reason_;
  std::string leave_reason_;
  Random random_;
  TimePoint started_at_{};
  TimePoint last_tick_{};
  std::optional<TimePoint> training_began_;
  std::optional<TimePoint> training_ended_;

  std::map<proto::PeerId, Peer> peers_;
  std::map<proto::PeerId, PendingJoin> pending_joins_;  // until the shards are set up
  ShardTable shards_;
  Membership membership_;
  Generation broadcast_;  // newest that was sent to the shards
  Seats seats_;
  TimePoint no_worker_since_{};

  SampleLedger ledger_;
  Evaluations evaluations_;
  uint32_t epochs_finished_ = 0;  // counted in full, and their evaluation begun
  Rounds rounds_;
  TimePoint round_since_{};
  FaultSchedule faults_;
  std::vector<PendingKill> kills_;
  ProgressMeter meter_;
  Counters counters_;

  // Leaving.
  bool is_told_shards_ = false;
  TimePoint leave_deadline_{};
  RetryTimer leave_timer_;
};

}  // namespace ps::coordinator
