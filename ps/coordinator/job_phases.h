#pragma once

#include <span>
#include <string>
#include <vector>

#include "ps/base/retry.h"
#include "ps/coordinator/checkpoints/checkpoint_desk.h"
#include "ps/coordinator/checkpoints/model_desk.h"
#include "ps/coordinator/finish_desk.h"
#include "ps/coordinator/fleet/notice_desk.h"
#include "ps/coordinator/state/job.h"
#include "ps/coordinator/workers/join_desk.h"
#include "ps/proto/state/launch_journal.h"

namespace ps::coordinator {

/// The phases of a job: how it starts, what is planned to disturb it, how it ends.
///
/// starting -> training -> leaving -> finished; a stop goes through stopping, where workers hand
/// over; a failure leaves at once. What is to be done with the model before that (FinishDesk) is
/// still training. When it leaves, workers are told first, then the model is read,
/// and shards are told last, so that nobody sees a peer vanish that it still needs.
class JobPhases {
 public:
  /// What else changes the job; all outlive it.
  struct Desks {
    LeaseDesk* leases = nullptr;
    JoinDesk* joins = nullptr;
    NoticeDesk* notices = nullptr;
    ModelDesk* model = nullptr;
    CheckpointDesk* checkpoints = nullptr;
    FinishDesk* finish = nullptr;
  };

  JobPhases(Job* job, const Desks& desks)
      : job_(job),
        leases_(desks.leases),
        joins_(desks.joins),
        notices_(desks.notices),
        model_(desks.model),
        checkpoints_(desks.checkpoints),
        finish_(desks.finish),
        leave_timer_(job->timing.retry_first, job->timing.retry_limit) {}

  /// Asks for the servers and workers of the config.
  void Start(TimePoint now);
  /// Asks for those of them that are awaited and that nobody has started.
  void StartMissing(std::span<const proto::LaunchRecord> launches, TimePoint now);
  /// What is in the job's state goes on; the times given to others begin anew.
  void Resume(TimePoint now);

  /// Errors: the last worker of every seat has failed, and nobody else takes part.
  Status CheckFailures(TimePoint now) const;
  /// Errors: the data has a value that no worker can train on.
  Status CheckData() const;
  /// Errors: training has diverged, and the config wants the job to end then.
  Status CheckDivergence();
  /// Training begins when all is there.
  void AdvanceStart(const Call& call);
  void FireFaults(const Call& call);
  /// The job is done, or all have handed over.
  void AdvanceEnd(const Call& call);
  /// Everybody has left, or had the time to.
  void AdvanceLeaving(const Call& call);
  /// The end of the time to join.
  void OnTick(const Call& call);

  void Fail(Status why, const Call& call);
  void RequestStop(bool is_immediate, const std::string& why, const Call& call);

  /// Whoever connects while the job leaves.
  void TellToLeave(const Call& call, proto::Role role);
  /// What a worker says while the job leaves: only its last statistics matter.
  void OnLateMessage(const Call& call, const proto::Message& message);

 private:
  /// How a job leaves.
  enum class Haste : uint8_t {
    kNone,
    kFailed,     // it does not wait for shards that are gone
    kImmediate,  // nor for anything else
  };

  void BeginTraining(const Call& call);
  void CheckJoinTimeout(const Call& call);
  void CheckReturns(const Call& call);
  void FireFault(uint32_t place, const Call& call);
  void BeginStop(const Call& call);
  void SendDrains(const Call& call);
  void BeginLeaving(Status outcome, const std::string& reason, Haste haste, const Call& call);
  void TellAllToLeave(const Call& call);
  bool HaveAllFailed(TimePoint now) const;
  std::string MissingWorkers(bool has_ends) const;

  Job* const job_;
  LeaseDesk* const leases_;
  JoinDesk* const joins_;
  NoticeDesk* const notices_;
  ModelDesk* const model_;
  CheckpointDesk* const checkpoints_;
  FinishDesk* const finish_;
  bool is_divergence_told_ = false;
  std::optional<TimePoint> shards_back_at_;  // kStarting: all shards are ready since
  TimePoint leave_deadline_{};
  TimePoint return_deadline_{};  // after a restart: until then peers may still come back
  RetryTimer leave_timer_;
};

}  // namespace ps::coordinator
