#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/base/time.h"
#include "ps/coordinator/fleet_actions.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

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
  /// Ends the run: after the steps under way, or at once. A second call may only hurry it.
  void RequestStop(bool is_immediate, TimePoint now, proto::Outbox* out);

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
};

}  // namespace ps::coordinator
