#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/remote/copier.h"
#include "ps/base/logger.h"
#include "ps/coordinator/checkpoints/job_disk.h"
#include "ps/coordinator/checkpoints/model_file.h"
#include "ps/coordinator/coordinator_core.h"
#include "ps/coordinator/held_output.h"
#include "ps/coordinator/job_journal.h"
#include "ps/coordinator/own_calls.h"
#include "ps/coordinator/policy_thread.h"
#include "ps/net/endpoint.h"
#include "ps/net/loop.h"
#include "ps/proto/timing.h"

namespace ps::coordinator {

/// The shell of CoordinatorCore: loop, connections, ticks, and the limits of `run` that end a job
/// early. It starts no process and prints nothing: whoever owns it brings a fleet, tells how the
/// fleet's processes end, and looks at the status. Thread: the one that calls Run; every callback
/// comes from there.
class CoordinatorHost final : private net::EndpointHandler, private proto::FleetActions {
 public:
  struct Options {
    CoordinatorOptions job;
    std::string token;                              // what workers and servers must show
    std::shared_ptr<const crypto::TlsContext> tls;  // null: the run is not encrypted
    /// EndpointOptions::admit.
    std::function<Status(const proto::Hello& hello)> admit;
    std::string control_path;  // socket file for commands of the same user
    std::string model_path;    // where the model is left at the end; empty: nowhere
    std::string frozen_path;   // safetensors with more for it, which nobody trains; empty: none
    std::shared_ptr<checkpoint::JobStore> store;  // null: no checkpoints
    /// What else the model's file is to say of itself; asked when it is begun. May be empty.
    std::function<std::map<std::string, std::string>()> model_metadata;
    JobJournal* journal = nullptr;  // outlives the host; null: none
    /// What the journal gave: the job goes on from there, at the same port, with the checkpoints
    /// that `job` says are there.
    std::optional<RecoveredJob> recovered;
  };

  /// The limit that ended the job early.
  struct LimitReached {
    bool is_loss = false;  // run.stop_at_loss; else run.seconds_max
    double elapsed_s = 0;  // of training
    uint64_t steps_counted = 0;
  };

  /// What the owner is asked and told during Run.
  struct Owner {
    proto::FleetActions* fleet = nullptr;
    /// Asked every tick once the job is finished: whether the connections may be closed. An owner
    /// that waits for its processes to end says no until they have, or had the time to.
    std::function<bool()> may_close;
    /// The job ends because of this limit; `why` is the reason in words.
    std::function<void(const std::string& why)> on_limit;
    /// The job is over, and the host waits for this alone: the last copy of a checkpoint.
    std::function<void(const std::string& what)> on_wait;
    /// Has happened; those of an earlier coordinator first, as far as they are known.
    std::function<void(const proto::EventRow& event)> on_event = nullptr;
    /// Asked again and again while the job goes on, on a thread of its own; null: the fleet stays.
    std::unique_ptr<proto::FleetPolicy> policy = nullptr;
    /// What machines cost now, for the policy; null: nobody knows.
    std::function<std::vector<proto::MarketPrice>()> prices = nullptr;
    /// What the policy has decided, or was refused, in words.
    std::function<void(const std::string& line)> on_decision = nullptr;
  };

  /// `log` outlives the host.
  CoordinatorHost(Options options, const Logger* log);
  ~CoordinatorHost() override;

  /// Makes the job, or takes the recovered one up, and listens at run.listen and run.port (the
  /// recovered port) for servers and workers, and at the control path. Returns the port. Errors:
  /// those of net::Endpoint and of model.from, naming the fields of the config; kCorruption,
  /// kInvalidArgument (the recovered state does not fit).
  Result<uint32_t> Listen();
  /// Runs the job until it is finished and the owner lets go, or EndAtOnce, or until it is known
  /// that another coordinator goes on with the job (CoordinatorCore::is_outranked): the owner is to
  /// end then and to leave the job's processes and files alone. Requires: Listen was OK.
  void Run(Owner owner);

  /// Ends the job after the steps under way, and an evaluation of its model if `is_evaluated`. A
  /// second call changes nothing.
  void RequestStop(const std::string& why, bool is_evaluated = true);
  /// Ends the job and Run without waiting for anybody.
  void EndAtOnce(const std::string& why);
  /// A process that the fleet started has ended. Not from inside the fleet's own calls.
  void OnProcessExited(const proto::ProcessEnd& end);

  /// Asks as psctl does at the control path: for a person, in a call. The answer is what psctl
  /// would get, a Refusal among others. Within Run, and not from inside the fleet's own calls.
  proto::Message Ask(proto::Message request);
  /// Begins a checkpoint now or, in bsp while a round is open, with its commit. Returns its number;
  /// 0: with the commit. Errors: kInvalidArgument (there are none, or the run is ending),
  /// kUnavailable (another one is under way, or there is nothing to write yet).
  Result<uint64_t> CheckpointNow();

  /// Something has happened that the owner knows of. `others`: what else could have been decided.
  void Tell(
      proto::EventCode code,
      std::initializer_list<LogField> fields,
      const std::string& others = "") {
    core_->Tell(code, fields, others);
  }

  /// For the owner's signals and timers; they are called within Run.
  net::Loop& loop() { return loop_; }

  /// Valid from Listen on.
  const CoordinatorCore& core() const { return *core_; }

  proto::JobStatus StatusNow() const { return core_->StatusAt(Now()); }

  /// As CoordinatorCore.
  void NoteRented(double usd, double usd_per_hour, std::map<WorkerId, double> of_workers) {
    core_->NoteRented(usd, usd_per_hour, std::move(of_workers));
  }

  /// A request or a limit ends the job.
  bool is_stopping() const { return is_stopping_; }

  const std::optional<LimitReached>& limit_reached() const { return limit_reached_; }

 private:
  // net::EndpointHandler.
  void OnConnected(proto::PeerId peer, const proto::Hello& hello) override;
  void OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) override;
  void OnClosed(proto::PeerId peer, const Status& why) override;
  void OnDrained(proto::PeerId peer) override;

  static TimePoint Now() { return SystemTime().Now(); }

  // proto::FleetActions: the owner's, while it runs.
  void StartServer(uint32_t server, LaunchId launch) override {
    owner_.fleet->StartServer(server, launch);
  }

  void StartWorker(WorkerId seat, LaunchId launch, const proto::WorkerGroup& group) override {
    owner_.fleet->StartWorker(seat, launch, group);
  }

  void KillWorker(WorkerId seat) override { owner_.fleet->KillWorker(seat); }

  void KillServer(uint32_t server, LaunchId keep) override {
    owner_.fleet->KillServer(server, keep);
  }

  bool HasServer(uint32_t server) const override { return owner_.fleet->HasServer(server); }

  std::string ZoneOf(WorkerId seat) const override { return owner_.fleet->ZoneOf(seat); }

  Status MakeCore();
  /// Ends every event of the core: its rows are written, then what it lets out leaves.
  void Commit();
  void TellEvents();
  void Tick();
  JobDisk::Answers DiskAnswers();
  void StartPolicy();
  void AskPolicyAfter(Duration pause);
  void OnDecision(const proto::FleetDecision& decision);
  void StartCopier();
  void OnCopied(const checkpoint::CopyState& state);
  bool AreCopiesMade();
  void CheckLimits();

  // Constant after construction.
  const Options options_;
  const Logger* const log_;
  const proto::Timing timing_;
  // The loop's.
  net::Loop loop_;
  Owner owner_;
  std::unique_ptr<ModelFileSource> model_source_;  // none without model.from
  std::unique_ptr<ModelFileSink> model_sink_;      // none without Options::model_path
  net::Endpoint endpoint_;
  OwnCalls own_calls_;
  HeldOutput held_;
  std::unique_ptr<CoordinatorCore> core_;       // from Listen on
  std::unique_ptr<JobDisk> disk_;               // from Listen on, if there is a store
  std::unique_ptr<checkpoint::Copier> copier_;  // from Run on, if there is checkpoint.copy_to
  proto::Asker asker_ = proto::Asker::kPolicy;  // of the policy, as the next two
  Duration look_every_{};
  bool was_refused_ = false;
  std::unique_ptr<PolicyThread> policy_;  // from Run on, if there is one
  uint64_t told_ = 0;                     // the newest event that the owner knows
  uint64_t turned_away_ = 0;              // by the endpoint, until the last tick
  bool has_said_wait_ = false;
  std::optional<LimitReached> limit_reached_;
  bool is_stopping_ = false;
  bool is_closing_ = false;
};

}  // namespace ps::coordinator
