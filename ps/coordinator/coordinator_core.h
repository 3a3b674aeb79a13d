#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ps/coordinator/checkpoints/best_desk.h"
#include "ps/coordinator/checkpoints/checkpoint_desk.h"
#include "ps/coordinator/checkpoints/initial_values.h"
#include "ps/coordinator/checkpoints/model_desk.h"
#include "ps/coordinator/finish_desk.h"
#include "ps/coordinator/fleet/fleet_desk.h"
#include "ps/coordinator/fleet/notice_desk.h"
#include "ps/coordinator/fleet/prewarm_desk.h"
#include "ps/coordinator/job_phases.h"
#include "ps/coordinator/servers/handover_desk.h"
#include "ps/coordinator/servers/move_desk.h"
#include "ps/coordinator/servers/park_desk.h"
#include "ps/coordinator/servers/server_watch.h"
#include "ps/coordinator/servers/servers_desk.h"
#include "ps/coordinator/servers/shard_desk.h"
#include "ps/coordinator/state/job.h"
#include "ps/coordinator/status_report.h"
#include "ps/coordinator/workers/departure_desk.h"
#include "ps/coordinator/workers/join_desk.h"
#include "ps/coordinator/workers/lease_desk.h"
#include "ps/coordinator/workers/mode_desk.h"
#include "ps/coordinator/workers/pause_desk.h"
#include "ps/coordinator/workers/settings_desk.h"
#include "ps/coordinator/workers/silence_watch.h"
#include "ps/proto/fleet_policy.h"
#include "ps/proto/state/launch_journal.h"

namespace ps::coordinator {

/// Runs one job: who takes part, which samples are whose, what counts, when it ends. Sans-I/O: time
/// and messages come in, messages go to an Outbox, processes are asked for through FleetActions.
/// Thread: one.
///
/// The shell does the handshake (token, HelloReply), calls OnTick every Timing::tick, and ends when
/// is_finished(): all workers and shards have left then, or had the time to.
class CoordinatorCore {
 public:
  /// A job that has not begun. `fleet` and `log` outlive the core.
  CoordinatorCore(CoordinatorOptions options, proto::FleetActions* fleet, const Logger* log);

  /// A job that goes on from the state of another core: shards and workers connect again as they do
  /// after any lost connection. Not to be started. Errors: kCorruption, kInvalidArgument (it is
  /// another job's).
  static Result<std::unique_ptr<CoordinatorCore>> Load(
      proto::JobState state,
      CoordinatorOptions options,
      proto::FleetActions* fleet,
      const Logger* log,
      TimePoint now);

  /// All that another core needs to go on from here.
  proto::JobState StateAt(TimePoint now) const { return parts_->job.StateAt(now); }

  /// What StateAt copies, but for points in time: for checkers that look at it after every event.
  const proto::JobState& state() const { return parts_->job.state; }

  /// Rows of the state that have changed since the last call, or all of them. What an event has let
  /// out may leave when they are written. Requires: CoordinatorOptions::journal, and a call after
  /// every event.
  RowChanges TakeRows(TimePoint now, bool is_all) { return parts_->job.TakeRows(now, is_all); }

  /// Asks for the servers and workers of the config.
  void Start(TimePoint now);
  /// After Load: asks for those that the job waits for and that were never started. `launches` are
  /// the fleet's processes that are not known to be over.
  void StartMissing(std::span<const proto::LaunchRecord> launches, TimePoint now);

  void OnPeerConnected(
      proto::PeerId peer, const proto::Hello& hello, TimePoint now, proto::Outbox* out);
  void OnMessage(
      proto::PeerId from,
      uint64_t request_id,
      proto::Message message,
      TimePoint now,
      proto::Outbox* out);
  void OnPeerClosed(proto::PeerId peer, TimePoint now, proto::Outbox* out);
  /// The peer, which was backlogged, takes more.
  void OnDrained(proto::PeerId peer, TimePoint now, proto::Outbox* out);
  void OnProcessExited(const proto::ProcessEnd& end, TimePoint now, proto::Outbox* out);
  void OnTick(TimePoint now, proto::Outbox* out);
  /// In the last tick some who wanted to connect found no room: members and shards that are away
  /// may be kept out by others, and are not blamed for that tick. While there is a crowd they get
  /// Timing::orphan more in all, for which they themselves try.
  void NoteCrowd(TimePoint now);
  // The disk's answers to what was asked of CoordinatorOptions::manifests.
  void OnManifestWritten(
      uint64_t checkpoint, const Status& status, TimePoint now, proto::Outbox* out);
  void OnManifestRead(
      uint64_t checkpoint,
      const Result<checkpoint::Manifest>& manifest,
      TimePoint now,
      proto::Outbox* out);
  /// Ends the run for the reason `why`: after the steps under way, or at once. A second call may
  /// only hurry it.
  void RequestStop(bool is_immediate, const std::string& why, TimePoint now, proto::Outbox* out);

  /// As CoordinatorHost.
  Result<uint64_t> CheckpointNow(TimePoint now, proto::Outbox* out);

  /// The fleet's policy has decided: its changes are made, and what it has to know later is part of
  /// the state. Errors: as ScaleRequest; the fleet stays as it is then.
  Status OnDecision(
      proto::Asker by, const proto::FleetDecision& decision, TimePoint now, proto::Outbox* out);

  /// Something of the run that the core does not know of by itself.
  void Tell(
      proto::EventCode code,
      std::initializer_list<LogField> fields,
      const std::string& others = "") {
    parts_->job.events.Tell(code, fields, others);
  }

  /// As Events::Stamp; after every event of the core, before TakeRows.
  void StampEvents(double unix_s) { parts_->job.events.Stamp(unix_s); }

  /// Everything there is to say. Cost: members x shards.
  proto::JobStatus StatusAt(TimePoint now) const {
    proto::JobStatus status = parts_->report.At(now);
    status.copies = copies_;
    status.usd_spent += rented_usd_;
    status.usd_per_hour += rented_usd_per_hour_;
    for (proto::WorkerRow& row : status.workers) {
      const auto rented = rented_workers_.find(row.worker);
      if (rented != rented_workers_.end() && !row.is_gone()) {
        row.usd_per_hour = rented->second;
      }
    }
    return status;
  }

  /// What the run's owner rents has cost `usd` until now, and costs `usd_per_hour`, beside the
  /// machines that the job has prices of; and what those `of_workers` cost an hour. For the status.
  void NoteRented(double usd, double usd_per_hour, std::map<WorkerId, double> of_workers) {
    rented_usd_ = usd;
    rented_usd_per_hour_ = usd_per_hour;
    rented_workers_ = std::move(of_workers);
  }

  /// What bytes between workers and servers have cost, and cost an hour now.
  double traffic_usd() const { return parts_->job.state.traffic.usd; }

  double TrafficUsdPerHour(TimePoint now) const { return parts_->job.traffic.UsdPerHour(now); }

  /// What copies of checkpoints have come to, for the status.
  void NoteCopies(proto::CopyStatus copies) { copies_ = std::move(copies); }

  size_t member_count() const { return parts_->job.membership.members().size(); }

  /// The same without workers, shards and waits. Cost: epochs.
  proto::JobStatus TotalsAt(TimePoint now) const { return parts_->report.TotalsAt(now); }

  /// The outcome is known: nobody trains any more.
  bool is_ending() const { return !parts_->job.is_working(); }

  /// The outcome is final and everybody has left, or had the time to.
  bool is_finished() const { return parts_->job.state.phase == JobPhase::kFinished; }

  /// OK when the job was done; kCancelled when it was stopped; else why it failed. Final once
  /// is_finished().
  const Status& outcome() const { return parts_->job.state.outcome; }

  /// How many cores have gone on with the job, and one.
  proto::Term term() const { return TermOf(parts_->job.state); }

  static proto::Term TermOf(const proto::JobState& state) { return state.restarts + 1; }

  /// A server has met a coordinator of this job with a later term: the job is that one's, and this
  /// core is to be thrown away without a word to anybody. Workers are not believed: any of them
  /// could end the run.
  bool is_outranked() const { return is_outranked_; }

  /// For process exit: 0 done or stopped, 1 failed.
  int exit_code() const;

  /// Verifies every invariant of the job's state; for tests and the simulation. Errors:
  /// kCorruption.
  Status Check() const;

  const SampleLedger& ledger() const { return parts_->job.ledger; }

 private:
  CoordinatorCore(
      CoordinatorOptions options,
      proto::JobState state,
      proto::FleetActions* fleet,
      const Logger* log);

  void Dispatch(const Call& call, proto::Message&& message);
  void OnRefusal(const Call& call, const proto::Refusal& message);
  void OnServerExited(const proto::ProcessEnd& end, const Call& call);
  void OnRestoreFailed(const Call& call, const proto::RestoreFailed& message);
  void OnLeaseRequest(const Call& call, const proto::LeaseRequest& message);
  void OnHeartbeat(const Call& call, const proto::WorkerHeartbeat& message);
  void NoteIgnoredNotice(Member* member, const std::string& what);
  void OnWorkerExited(const proto::ProcessEnd& end, const Call& call);
  void OnStatusRequest(const Call& call);
  void OnStopRequest(const Call& call, const proto::StopRequest& message);
  void ForgiveOwnSilence(TimePoint now);
  bool IsGoingBack() const;
  void LimitGoingBack(const Call& call);
  void AdvanceGoingBack(const Call& call);
  void GoBackTo(JobState state, const Call& call);
  void TakeBestIfWanted();
  void OnBestRead(const Result<checkpoint::Manifest>& manifest, const Call& call);
  void BeginAgain(JobState state, const std::string& why, const Call& call);
  void ChangeShardsIfWanted(const Call& call);
  Peers CloseConnections(const JobState& next, const std::string& why, const Call& call);
  /// Does all that follows from what has just changed; the end of every event.
  void Settle(const Call& call);

  /// The job and all that works on it; made anew when the job goes back to a checkpoint.
  struct Parts {
    Parts(
        CoordinatorOptions options, JobState state, proto::FleetActions* fleet, const Logger* log);

    Job job;
    LeaseDesk leases;
    DepartureDesk departures;
    JoinDesk joins;
    SilenceWatch watch;
    ServerWatch servers;
    ShardDesk shards;
    InitialValues initial_values;
    CheckpointDesk checkpoints;
    BestDesk best;
    HandoverDesk handovers;
    MoveDesk moves;
    ServersDesk servers_desk;
    PauseDesk pauses;
    ParkDesk park;
    ModeDesk modes;
    SettingsDesk settings;
    NoticeDesk notices;
    PrewarmDesk prewarm;
    FleetDesk fleet_desk;
    ModelDesk model;
    FinishDesk finish;
    JobPhases phases;
    StatusReport report;
  };

  std::unique_ptr<Parts> parts_;  // never null
  uint64_t reading_ = 0;          // the checkpoint whose manifest was asked for
  bool is_reading_best_ = false;  // not to go back to it, but to leave its model
  proto::CopyStatus copies_;
  double rented_usd_ = 0;
  double rented_usd_per_hour_ = 0;
  std::map<WorkerId, double> rented_workers_;
  bool is_outranked_ = false;
  TimePoint last_event_{};
  std::optional<TimePoint> going_back_since_;
  TimePoint crowd_at_{};
  Duration crowd_forgiven_{};
};

}  // namespace ps::coordinator
