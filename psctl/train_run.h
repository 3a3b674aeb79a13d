#pragma once

#include <memory>
#include <optional>

#include "provisioner/launcher.h"
#include "ps/base/logger.h"
#include "ps/coordinator/coordinator_core.h"
#include "ps/net/endpoint.h"
#include "ps/net/loop.h"
#include "ps/proto/timing.h"
#include "psctl/console.h"
#include "psctl/job_parts.h"
#include "psctl/local_fleet.h"
#include "psctl/machine_load.h"
#include "psctl/plan_run.h"
#include "psctl/progress.h"
#include "psctl/run_directory.h"
#include "psctl/run_events.h"
#include "psctl/run_profile.h"

namespace ps::psctl {

/// The coordinator's process: loop, connections, children, terminal. Ctrl-C ends the run cleanly, a
/// second one at once. Thread: the process's main thread, whose children the processes are.
class TrainRun final : private net::EndpointHandler {
 public:
  /// `config`, `directory` and `console` outlive the run.
  TrainRun(
      const proto::JobConfig& config,
      JobParts parts,
      const RunDirectory& directory,
      std::unique_ptr<LogSink> log_sink,
      LineFile metrics,
      const Console& console);

  /// Listens, for the job's processes and for psctl, and makes the parts that need to know the
  /// port.
  Status Prepare();
  /// Until the job is over. Returns the exit code.
  int Run();

  /// Valid after Run.
  const proto::JobStatus& status() const { return final_status_; }

  const LossReached& loss_reached() const { return loss_reached_; }

  /// What the run told of the job.
  proto::JobProfile Profile() const;

  /// Share of the training's time in which this machine's processors were busy, with whatever.
  double machine_busy() const { return BusyShare(training_from_, training_to_); }

 private:
  void OnConnected(proto::PeerId peer, const proto::Hello& hello) override;

  void OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) override {
    core_->OnMessage(peer, request_id, std::move(message), Now(), endpoint_.get());
  }

  void OnClosed(proto::PeerId peer, const Status& /*why*/) override {
    core_->OnPeerClosed(peer, Now(), endpoint_.get());
  }

  static TimePoint Now() { return SystemTime().Now(); }

  Status ListenForControl();
  void Announce();
  void Tick();
  void Reap();
  void OnEnd(const LocalFleet::End& end);
  void OnStopSignal(int signal);
  void Observe();
  void Redraw();
  void WriteMetrics();
  void Leave();

  // Constant after construction.
  const proto::JobConfig& config_;
  const JobParts parts_;
  const RunDirectory& directory_;
  const std::unique_ptr<LogSink> log_sink_;
  const Logger log_;
  LineFile metrics_;
  const Console& console_;
  const proto::Timing timing_;
  // Made by Prepare.
  net::Loop loop_;
  std::unique_ptr<provisioner::Launcher> launcher_;
  std::unique_ptr<LocalFleet> fleet_;
  std::unique_ptr<coordinator::CoordinatorCore> core_;
  std::unique_ptr<net::Endpoint> endpoint_;
  // State of the run.
  ProgressPrinter progress_;
  RunEvents events_;
  RunProfiler profiler_;
  LossReached loss_reached_;
  ProcessorTime training_from_;
  ProcessorTime training_to_;
  proto::JobStatus final_status_;
  std::optional<TimePoint> leave_by_;
  bool is_stopping_ = false;
  bool is_aborted_ = false;
};

}  // namespace ps::psctl
