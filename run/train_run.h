#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "provisioner/fleet/job_fleet.h"
#include "provisioner/fleet/launcher.h"
#include "provisioner/profile/plan_run.h"
#include "provisioner/profile/run_profiler.h"
#include "provisioner/profile/start_meter.h"
#include "ps/base/logger.h"
#include "ps/coordinator/coordinator_host.h"
#include "run/directory/event_log.h"
#include "run/directory/run_directory.h"
#include "run/machine_load.h"
#include "run/metrics.h"
#include "run/model_describer.h"
#include "run/rented_machines.h"
#include "run/report/console.h"
#include "run/report/progress.h"
#include "run/report/run_events.h"
#include "run/run_keys.h"
#include "run/shared_state.h"
#include "run/status_page.h"
#include "run/train.h"

namespace ps::run {

/// One run at the terminal: starts the coordinator and the job's processes, or goes on with those
/// of a coordinator that was killed, and shows how it goes.
/// Ctrl-C ends the run cleanly, a second one at once. Thread: the process's main thread, whose
/// children the processes are.
class TrainRun final {
 public:
  /// `start` has its directory and its journal; what the run does not take of it, and `console`,
  /// outlive the run.
  TrainRun(TrainStart* start, MetricsFiles metrics, EventFile event_file, const Console& console);

  /// Listens, for the job's processes and for psctl, and makes the parts that need to know the
  /// port.
  Status Prepare();
  /// Until the job is over; `shared` hears that the loop runs, if it is not null. Returns the exit
  /// code.
  int Run(SharedState* shared);

  /// Valid after Run.
  const proto::JobStatus& status() const { return final_status_; }

  /// When the training loss was down to run.stop_at_loss; zeros when it was not.
  provisioner::LossReached loss_reached() const;

  /// What the run told of the job, to this coordinator and to those before it.
  proto::JobProfile Profile() const;

  /// Share of the training's time in which this machine's processors were busy, with whatever.
  double machine_busy() const { return BusyShare(training_from_, training_to_); }

 private:
  Status WriteClasses() const;
  void StartPage();
  void Announce();
  void AnnounceAgain();
  bool MayClose();
  void TellOfLatePrograms();
  void NoteRented();
  void CheckBudget();
  void LeavePool();
  void TellOfMachinesLeft();
  [[noreturn]] void LeaveToAnother();
  void RescueModel();
  bool HasLostDirectory();
  void Reap();
  void OnEnd(const proto::ProcessEnd& end);
  void OnStopSignal(int signal);
  void OnSupervisorLost();
  void Observe();
  void Redraw();
  bool IsTurn(size_t* skipped) const;
  void WriteMetrics();
  /// What an earlier coordinator of the run has measured counts, too.
  void TakeUpProfile();
  void KeepProfile();

  // Constant after construction.
  const proto::JobConfig& config_;
  const JobParts parts_;
  const RunDirectory& directory_;
  RunKeys keys_;
  coordinator::JobJournal* const journal_;
  const Logger& log_;
  const std::vector<proto::LaunchRecord> launches_;  // of a coordinator that was killed
  const bool is_recovered_;
  const bool goes_on_;  // from a checkpoint, or where a coordinator was killed
  MetricsFiles metrics_;
  EventFile event_file_;
  const Console& console_;
  // The processes.
  const std::unique_ptr<provisioner::Launcher> launcher_;
  std::unique_ptr<RentedMachines> rented_;        // null: none; made by Prepare
  std::unique_ptr<provisioner::JobFleet> fleet_;  // made by Prepare
  ModelDescriber describer_;
  coordinator::CoordinatorHost host_;
  std::string address_;  // at which others reach the coordinator; made by Prepare
  // What is shown and kept of the run.
  const std::optional<proto::Plan> plan_;
  std::unique_ptr<StatusPage> page_;  // none where the job wants none, or it can't be
  std::string page_trouble_;          // why it can't
  ProgressPrinter progress_;
  RunEvents events_;
  provisioner::RunProfiler profiler_;
  provisioner::StartMeter starts_;
  std::optional<proto::JobProfile> earlier_profile_;  // of coordinators of the run before this one
  ProcessorTime training_from_;
  ProcessorTime training_to_;
  proto::JobStatus final_status_;
  std::optional<TimePoint> leave_by_;
  TimePoint tell_late_{};  // that a program is still there
  bool is_aborted_ = false;
  size_t looks_skipped_ = 0;
  size_t redraws_skipped_ = 0;
};

}  // namespace ps::run
